"""What the engine gives back, in vLLM's names: one RequestOutput a prompt."""

from dataclasses import dataclass


@dataclass
class CompletionOutput:
    """One answer to a prompt.

    `token_ids` holds every generated id, the one that ended the answer included; `text` is what a
    reader should see: special tokens left out, cut before a stop string.
    """

    index: int
    text: str
    token_ids: list[int]
    finish_reason: str | None = None  # "stop", "length", "abort"; None while it runs
    stop_reason: int | str | None = None  # the stop string or stop token id; None for the eos token

    def finished(self) -> bool:
        return self.finish_reason is not None


@dataclass
class RequestOutput:
    """A prompt with its answers so far."""

    request_id: str
    prompt: str | None  # None when the prompt came as token ids
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    finished: bool
