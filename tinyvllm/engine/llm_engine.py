"""LLMEngine: requests wait in a queue, `step()` moves them on, outputs come back as they grow.

In this first form requests run one after the other; what a step does with several at once is the
scheduler's business, and comes with it.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from tinyvllm.config import ModelConfig, read_json
from tinyvllm.course.modules import student_modules
from tinyvllm.engine.model_runner import ModelRunner
from tinyvllm.engine.request import Request
from tinyvllm.engine.sampler import MASK32
from tinyvllm.outputs import RequestOutput
from tinyvllm.sampling_params import SamplingParams
from tinyvllm.tokenizer import Tokenizer

PACKAGE = Path(__file__).parent.parent

Prompt = str | Sequence[int] | Mapping[str, Any]

DTYPES = {
    "float32": torch.float32,
    "float": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "half": torch.float16,
}


class LLMEngine:
    """Loads a model from a Hugging Face folder, and runs requests on it."""

    def __init__(
        self,
        folder: Path,
        *,
        dtype: str | torch.dtype = "auto",
        device: str = "auto",
        max_model_len: int | None = None,
        seed: int = 0,
        kernels: str = "auto",
        progress: bool = True,
    ):
        self.student_modules = student_modules(PACKAGE)
        self.config = ModelConfig.from_folder(folder)
        self.tokenizer = Tokenizer(folder)
        self.generation_config = _optional_json(folder / "generation_config.json")
        self.eos_token_ids = eos_token_ids(
            self.generation_config, read_json(folder / "config.json")
        )
        self.max_model_len = _max_model_len(max_model_len, self.config)
        self.device = choose_device(device)
        self.dtype = choose_dtype(dtype, self.device)
        self.seed = seed
        self._runner = ModelRunner(
            folder,
            self.config,
            dtype=self.dtype,
            device=self.device,
            max_model_len=self.max_model_len,
            kernels=kernels,
            progress=progress,
        )
        self._waiting: deque[Request] = deque()
        self._running: Request | None = None
        self._added = 0

    def add_request(self, request_id: str, prompt: Prompt, params: SamplingParams) -> None:
        """Queues a prompt. Raises ValueError when it can't be run."""
        if any(r.request_id == request_id for r in self._unfinished()):
            raise ValueError(f"A request {request_id!r} is already in the engine.")
        text, token_ids = self._token_ids(prompt)
        room = self.max_model_len - len(token_ids)
        self._waiting.append(
            Request(
                request_id=request_id,
                prompt=text,
                prompt_token_ids=token_ids,
                params=params,
                max_tokens=room if params.max_tokens is None else min(params.max_tokens, room),
                eos_token_ids=self.eos_token_ids,
                # Without a seed of its own, a request takes the engine's and its place in line.
                seed=params.seed
                if params.seed is not None
                else (self.seed & MASK32) << 32 | self._added,
                detokenizer=Request.detokenizer_for(self.tokenizer, params, token_ids),
            )
        )
        self._added += 1

    def step(self) -> list[RequestOutput]:
        """Generates one token, and returns the request that got it."""
        if self._running is None:
            if not self._waiting:
                return []
            self._running = self._waiting.popleft()
            self._runner.start(self._running)
        request = self._running
        request.append(self._runner.execute(request))
        if request.finished:
            self._running = None
        return [request.output()]

    def abort_request(self, request_id: str) -> None:
        """Drops a request; one that is not there any more is no error."""
        self._waiting = deque(r for r in self._waiting if r.request_id != request_id)
        if self._running is not None and self._running.request_id == request_id:
            self._running = None

    def has_unfinished_requests(self) -> bool:
        return bool(self._unfinished())

    def _unfinished(self) -> list[Request]:
        return [*self._waiting, *([self._running] if self._running else [])]

    def _token_ids(self, prompt: Prompt) -> tuple[str | None, list[int]]:
        """(text or None, checked token ids) of a prompt in any of its three forms."""
        text = None
        if isinstance(prompt, Mapping):
            known = {"prompt", "prompt_token_ids"} & prompt.keys()
            if len(known) != 1 or len(prompt) != 1:
                raise ValueError(
                    'A prompt as a dict is {"prompt": "…"} or {"prompt_token_ids": […]}; this one '
                    f"has the keys {sorted(prompt)}."
                )
            prompt = next(iter(prompt.values()))
        if isinstance(prompt, str):
            text, token_ids = prompt, self.tokenizer.encode(prompt)
        elif isinstance(prompt, Sequence) and all(
            isinstance(t, int) and not isinstance(t, bool) for t in prompt
        ):
            token_ids = list(prompt)
        else:
            raise ValueError(
                "A prompt is a string, a list of token ids, or a dict with one of them; this one "
                f"is a {type(prompt).__name__}: {str(prompt)[:60]!r}."
            )
        self._check(token_ids)
        return text, token_ids

    def _check(self, token_ids: list[int]) -> None:
        if not token_ids:
            raise ValueError("The prompt is empty: there is no token to continue from.")
        vocab_size = self.config.vocab_size
        for i, token_id in enumerate(token_ids):
            if not 0 <= token_id < vocab_size:
                raise ValueError(
                    f"Token id {token_id} at position {i} of the prompt is outside the vocabulary "
                    f"(0 to {vocab_size - 1})."
                )
        if len(token_ids) >= self.max_model_len:
            raise ValueError(
                f"The prompt has {len(token_ids)} tokens, and max_model_len is "
                f"{self.max_model_len}: that leaves no room for an answer. Shorten the prompt or "
                f"raise max_model_len."
            )


def eos_token_ids(generation_config: dict, config: dict) -> frozenset[int]:
    """The ids that end an answer: generation_config.json's, else config.json's."""
    ids = generation_config.get("eos_token_id", config.get("eos_token_id"))
    if ids is None:
        return frozenset()
    return frozenset(ids if isinstance(ids, list) else [ids])


def choose_device(device: str) -> torch.device:
    """The device to run on; "auto" is a CUDA GPU where there is one. Raises ValueError."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    chosen = torch.device(device)
    if chosen.type not in ("cpu", "cuda"):
        raise ValueError(f"device {device!r} is not supported; 'cpu' and 'cuda' are.")
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "device='cuda' was asked for, and torch finds no CUDA GPU: `python -m tinyvllm doctor` "
            "says why."
        )
    return chosen


def choose_dtype(dtype: str | torch.dtype, device: torch.device) -> torch.dtype:
    """The dtype to compute in; "auto": float32 on a CPU, bfloat16 (before Ampere float16) on a GPU.

    Raises ValueError.
    """
    if dtype == "auto":
        if device.type == "cpu":
            return torch.float32
        return torch.bfloat16 if torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16
    chosen = DTYPES.get(dtype, dtype) if isinstance(dtype, str) else dtype
    if chosen not in DTYPES.values():
        raise ValueError(f"dtype {dtype!r} is not supported; these are: auto, {', '.join(DTYPES)}.")
    return chosen


def _max_model_len(asked: int | None, config: ModelConfig) -> int:
    longest = config.max_position_embeddings
    if asked is None:
        return longest
    if not isinstance(asked, int) or isinstance(asked, bool) or asked < 2:
        raise ValueError(f"max_model_len must be an integer of at least 2; it is {asked!r}.")
    if asked > longest:
        raise ValueError(
            f"max_model_len {asked} is more than the {longest} positions that the model was made "
            f"for."
        )
    return asked


def _optional_json(path: Path) -> dict:
    return read_json(path) if path.exists() else {}
