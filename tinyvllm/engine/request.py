"""Request: one prompt on its way through the engine, and when it is finished."""

from collections.abc import Collection
from dataclasses import dataclass, field

from tinyvllm.outputs import CompletionOutput, RequestOutput
from tinyvllm.sampling_params import SamplingParams
from tinyvllm.tokenizer import IncrementalDetokenizer, Tokenizer


@dataclass
class Request:
    """A prompt, what has been generated for it, and how far the cache has got.

    num_computed_tokens: how many of the tokens (prompt, then output) have keys and values in the
    cache. seed: of this request's sampling noise.
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    params: SamplingParams
    max_tokens: int
    eos_token_ids: Collection[int]
    seed: int
    detokenizer: IncrementalDetokenizer | None
    output_token_ids: list[int] = field(default_factory=list)
    num_computed_tokens: int = 0
    text: str = ""
    finish_reason: str | None = None
    stop_reason: int | str | None = None

    @classmethod
    def detokenizer_for(
        cls, tokenizer: Tokenizer, params: SamplingParams, prompt_token_ids: list[int]
    ) -> IncrementalDetokenizer | None:
        if not params.detokenize:
            return None
        return IncrementalDetokenizer(
            tokenizer, prompt_token_ids, skip_special_tokens=params.skip_special_tokens
        )

    @property
    def new_token_ids(self) -> list[int]:
        """The tokens whose keys and values are not in the cache yet."""
        behind_prompt = self.num_computed_tokens - len(self.prompt_token_ids)
        if behind_prompt >= 0:  # a decode step: the prompt isn't copied for it
            return self.output_token_ids[behind_prompt:]
        return self.prompt_token_ids[self.num_computed_tokens :] + self.output_token_ids

    @property
    def num_tokens(self) -> int:
        return len(self.prompt_token_ids) + len(self.output_token_ids)

    @property
    def finished(self) -> bool:
        return self.finish_reason is not None

    def append(self, token_id: int) -> None:
        """Takes the next token: its text, and whether it ends the answer."""
        self.output_token_ids.append(token_id)
        if token_id in self.eos_token_ids and not self.params.ignore_eos:
            self.finish_reason = "stop"
        elif token_id in self.params.stop_token_ids:
            self.finish_reason, self.stop_reason = "stop", token_id
        elif len(self.output_token_ids) >= self.max_tokens:
            self.finish_reason = "length"
        if self.detokenizer is not None:
            self._append_text(token_id)

    def _append_text(self, token_id: int) -> None:
        # A stop token's own text is part of the answer only on demand, as in vLLM.
        ends_by_token = self.finish_reason == "stop"
        shown = not ends_by_token or self.params.include_stop_str_in_output
        new = self.detokenizer.add(token_id) if shown else ""
        if self.finished:
            new += self.detokenizer.flush()
        searched_from = len(self.text)
        self.text += new
        if new and not ends_by_token:
            self._cut_at_stop_string(searched_from)

    def _cut_at_stop_string(self, new_from: int) -> None:
        """Ends the answer at the first stop string that reaches into the text from `new_from`."""
        found = None  # (where it begins, which)
        for stop in self.params.stop_strings:
            begin = self.text.find(stop, max(0, new_from - len(stop) + 1))
            if begin >= 0 and (found is None or begin < found[0]):
                found = (begin, stop)
        if found is None:
            return
        begin, stop = found
        keep = begin + len(stop) if self.params.include_stop_str_in_output else begin
        self.text = self.text[:keep]
        self.finish_reason, self.stop_reason = "stop", stop

    def output(self) -> RequestOutput:
        """A snapshot of the whole answer so far."""
        completion = CompletionOutput(
            index=0,
            text=self.text,
            token_ids=list(self.output_token_ids),
            finish_reason=self.finish_reason,
            stop_reason=self.stop_reason,
        )
        return RequestOutput(
            request_id=self.request_id,
            prompt=self.prompt,
            prompt_token_ids=list(self.prompt_token_ids),
            outputs=[completion],
            finished=self.finished,
        )
