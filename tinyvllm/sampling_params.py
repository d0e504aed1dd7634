"""SamplingParams: how the next token is chosen and when to stop; vLLM's names and defaults.

Parameters that vLLM has and this engine has not yet are accepted at their default value only;
anything else raises, so that no setting is silently ignored.
"""

from dataclasses import dataclass, field
from typing import Any

# Name -> the value that means "not used".
NOT_YET: dict[str, Any] = {
    "n": 1,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "min_tokens": 0,
    "logprobs": None,
    "prompt_logprobs": None,
    "logit_bias": None,
    "allowed_token_ids": None,
    "bad_words": None,
    "structured_outputs": None,
}


@dataclass
class SamplingParams:
    """How to choose tokens, and when to stop.

    temperature: 0 is greedy (argmax); above 0, logits are divided by it before sampling.
    top_k: keep the k likeliest tokens; 0 or -1 keeps all.
    top_p: then keep the smallest set of likeliest tokens whose probabilities reach top_p (0 to 1).
    min_p: drop tokens less likely than min_p times the likeliest one, in [0, 1].
    seed: two requests with the same seed and prompt give the same answer; None takes the engine's.
    stop: a string, or several; the answer ends before the first one that appears in its text.
    stop_token_ids: ids that end the answer, beside the model's own end tokens.
    ignore_eos: go on past the model's end tokens (stop_token_ids still count).
    max_tokens: at most so many new tokens; None: until max_model_len.
    include_stop_str_in_output: leave the stop string in the text.
    skip_special_tokens: leave special tokens out of the text.

    Raises ValueError for a value out of range, a contradiction, or what is not there yet.
    """

    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    logit_bias: dict[int, float] | None = None
    allowed_token_ids: list[int] | None = None
    bad_words: list[str] | None = None
    structured_outputs: Any = None
    detokenize: bool = True
    skip_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    stop_strings: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name, unused in NOT_YET.items():
            if (given := getattr(self, name)) != unused:
                raise ValueError(
                    f"{name}={given!r} is not supported yet: this engine takes {name}={unused!r} "
                    f"only."
                )
        self.stop_strings = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        self.stop_token_ids = list(self.stop_token_ids or [])
        self._check_ranges()
        self._check_stops()

    def _check_ranges(self) -> None:
        def number(name: str, ok: bool, expected: str) -> None:
            if not ok:
                raise ValueError(f"{name} must be {expected}; it is {getattr(self, name)!r}.")

        number("temperature", _is_real(self.temperature) and self.temperature >= 0, "at least 0")
        number("top_p", _is_real(self.top_p) and 0 < self.top_p <= 1, "in (0, 1]")
        number("min_p", _is_real(self.min_p) and 0 <= self.min_p <= 1, "in [0, 1]")
        number("top_k", _is_int(self.top_k) and self.top_k >= -1, "0 or -1 (all), or at least 1")
        number(
            "max_tokens",
            self.max_tokens is None or (_is_int(self.max_tokens) and self.max_tokens >= 1),
            "at least 1, or None",
        )
        number("seed", self.seed is None or _is_int(self.seed), "an integer or None")

    def _check_stops(self) -> None:
        if not all(isinstance(s, str) for s in self.stop_strings):
            raise ValueError(f"stop must be a string or a list of strings; it is {self.stop!r}.")
        if "" in self.stop_strings:
            raise ValueError("stop holds an empty string, which would end every answer at once.")
        if not all(_is_int(t) and t >= 0 for t in self.stop_token_ids):
            raise ValueError(
                f"stop_token_ids must be token ids (integers >= 0); it is {self.stop_token_ids!r}."
            )
        if self.stop_strings and not self.detokenize:
            raise ValueError(
                "stop strings are looked for in the text, and detokenize=False makes none: "
                "use stop_token_ids, or leave detokenize on."
            )

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


def _is_int(x) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)


def _is_real(x) -> bool:
    # nan fails every comparison that the caller makes next; inf fails x - x == 0.
    return isinstance(x, (int, float)) and not isinstance(x, bool) and x - x == 0
