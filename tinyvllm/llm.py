"""LLM: the offline front door, as vLLM's. Prompts in, RequestOutputs out."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from tinyvllm.engine.llm_engine import LLMEngine, Prompt
from tinyvllm.hub import resolve_model
from tinyvllm.outputs import CompletionOutput, RequestOutput
from tinyvllm.sampling_params import SamplingParams
from tinyvllm.tokenizer import Tokenizer

Messages = Sequence[dict[str, str]]


class LLM:
    """A model, ready to answer.

    model: a folder in Hugging Face's format, a name on the hub, or None for the default model.
    dtype: "auto" is float32 on a CPU and bfloat16 on a GPU (float16 before Ampere).
    device: "auto", "cpu" or "cuda".
    max_model_len: longest prompt plus answer, in tokens; None: as long as the model was made for.
    seed: of the sampling of requests that bring no seed.
    kernels: "auto", the fastest; "promoted", the package's CUDA kernels on a GPU, its plain torch
    on a CPU; "emulated", the CUDA kernels on a CPU, thread by thread; "reference", plain torch.
    use_tqdm_on_load: progress bars while fetching and loading.

    Raises ConfigError, CheckpointError or SafetensorsError for a folder that can't be loaded,
    ModelNotAvailable for a name that can't be fetched, and ValueError for a bad option.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        dtype: str | torch.dtype = "auto",
        device: str = "auto",
        max_model_len: int | None = None,
        seed: int = 0,
        kernels: str = "auto",
        use_tqdm_on_load: bool = True,
        **unsupported: Any,
    ):
        if unsupported:
            raise ValueError(f"LLM has no option {', '.join(sorted(unsupported))} (yet).")
        self.llm_engine = LLMEngine(
            resolve_model(model, progress=use_tqdm_on_load),
            dtype=dtype,
            device=device,
            max_model_len=max_model_len,
            seed=seed,
            kernels=kernels,
            progress=use_tqdm_on_load,
        )
        self._requests = 0
        self._latest: dict[str, RequestOutput] = {}  # what a step gave and nobody has taken yet

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Answers each prompt; outputs come in the order of the prompts.

        prompts: one prompt or a list of them; a prompt is a string, a list of token ids,
        {"prompt": "…"} or {"prompt_token_ids": […]}.
        sampling_params: one for all, or one a prompt; None: `get_default_sampling_params()`.

        Raises ValueError for a prompt that can't be run; then none is.
        """
        prompts = _as_list(prompts)
        params = self._params_for(prompts, sampling_params)
        ids = [self._next_id() for _ in prompts]
        try:
            for request_id, prompt, p in zip(ids, prompts, params):
                self.llm_engine.add_request(request_id, prompt, p)
            return self._run(ids, use_tqdm)
        finally:  # after an error or Ctrl-C, nothing of this call stays behind
            self._abort(ids)

    def chat(
        self,
        messages: Messages | Sequence[Messages],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
        add_generation_prompt: bool = True,
        chat_template: str | None = None,
    ) -> list[RequestOutput]:
        """Answers one conversation or several, each a list of {"role": …, "content": …}."""
        one = bool(messages) and isinstance(messages[0], Mapping)
        conversations = [messages] if one else messages
        prompts = [
            self.chat_prompt(
                c, add_generation_prompt=add_generation_prompt, chat_template=chat_template
            )
            for c in conversations
        ]
        return self.generate(prompts, sampling_params, use_tqdm=use_tqdm)

    def stream(
        self, prompt: Prompt, sampling_params: SamplingParams | None = None
    ) -> Iterator[RequestOutput]:
        """Yields what is new as it comes: each output holds the text and ids since the last one.

        With stop strings, text that may be the beginning of one is held back until that is clear.
        """
        (params,) = self._params_for([prompt], sampling_params)
        request_id = self._next_id()
        self.llm_engine.add_request(request_id, prompt, params)
        held_back = 0
        if params.stop_strings and not params.include_stop_str_in_output:
            held_back = max(map(len, params.stop_strings)) - 1
        text_sent = ids_sent = 0
        try:
            for output in self._outputs_of([request_id]):
                whole = output.outputs[0]
                until = len(whole.text) - (0 if output.finished else held_back)
                until = max(until, text_sent)
                new = CompletionOutput(
                    index=0,
                    text=whole.text[text_sent:until],
                    token_ids=whole.token_ids[ids_sent:],
                    finish_reason=whole.finish_reason,
                    stop_reason=whole.stop_reason,
                )
                text_sent, ids_sent = until, len(whole.token_ids)
                output.outputs = [new]
                yield output
        finally:  # the caller stopped listening
            self._abort([request_id])

    def chat_prompt(
        self,
        messages: Messages,
        *,
        add_generation_prompt: bool = True,
        chat_template: str | None = None,
    ) -> Prompt:
        """The token ids of a conversation; the template writes its special tokens itself."""
        tokenizer = self.get_tokenizer()
        text = tokenizer.apply_chat_template(
            messages, add_generation_prompt=add_generation_prompt, chat_template=chat_template
        )
        return {"prompt_token_ids": tokenizer.encode(text, add_special_tokens=False)}

    def get_tokenizer(self) -> Tokenizer:
        return self.llm_engine.tokenizer

    def get_default_sampling_params(self) -> SamplingParams:
        """What generation_config.json recommends; vLLM's defaults where it is silent."""
        raw = self.llm_engine.generation_config
        names = ("repetition_penalty", "temperature", "top_k", "top_p", "min_p")
        given = {n: raw[n] for n in names if raw.get(n) is not None}
        if raw.get("max_new_tokens") is not None:
            given["max_tokens"] = raw["max_new_tokens"]
        return SamplingParams(**given)

    def _params_for(self, prompts, params) -> list[SamplingParams]:
        if params is None:
            params = self.get_default_sampling_params()
        if isinstance(params, SamplingParams):
            return [params] * len(prompts)
        if len(params) != len(prompts):
            raise ValueError(f"{len(prompts)} prompts came with {len(params)} sampling parameters.")
        return list(params)

    def _run(self, ids: list[str], use_tqdm: bool) -> list[RequestOutput]:
        done: dict[str, RequestOutput] = {}
        with tqdm(total=len(ids), desc="Answers", disable=not use_tqdm, dynamic_ncols=True) as bar:
            for tokens, output in enumerate(self._outputs_of(ids), start=1):
                if output.finished:
                    done[output.request_id] = output
                    if elapsed := bar.format_dict["elapsed"]:
                        bar.set_postfix_str(f"{tokens / elapsed:.1f} tokens/s", refresh=False)
                    bar.update()
        return [done[i] for i in ids]

    def _outputs_of(self, ids: list[str]) -> Iterator[RequestOutput]:
        """Steps the engine until these requests are finished, yielding their outputs.

        Other calls' requests may move on in the same steps: their outputs wait for them.
        """
        unfinished = set(ids)
        while unfinished:
            if not unfinished & self._latest.keys():
                for output in self.llm_engine.step():
                    self._latest[output.request_id] = output
            for request_id in unfinished & self._latest.keys():
                output = self._latest.pop(request_id)
                if output.finished:
                    unfinished.discard(request_id)
                yield output

    def _abort(self, ids: list[str]) -> None:
        for request_id in ids:
            self.llm_engine.abort_request(request_id)
            self._latest.pop(request_id, None)

    def _next_id(self) -> str:
        self._requests += 1
        return str(self._requests - 1)


def _as_list(prompts) -> list[Prompt]:
    """One prompt or several: a list of integers is one prompt, a list of anything else several."""
    if isinstance(prompts, (str, Mapping)):
        return [prompts]
    if not isinstance(prompts, Sequence):
        raise ValueError(
            f"prompts is a prompt or a list of prompts; it is a {type(prompts).__name__}."
        )
    if prompts and all(isinstance(p, int) for p in prompts):
        return [prompts]
    return list(prompts)
