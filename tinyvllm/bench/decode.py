"""Decode speed at batch 1, ours and transformers' in one run, round by round.

A round asks each engine for 1 token and for N tokens from the same prompt; the difference of the
two times is N - 1 decode steps, prefill and set-up cancelled. Both compute in float32, greedy.
"""

import argparse
import json
import os
import statistics
import time

import torch

from tinyvllm.bench import machine
from tinyvllm.llm import LLM
from tinyvllm.sampling_params import SamplingParams

TEXT = (
    "A paged cache keeps the keys and values of a sequence in blocks of a fixed size, which may "
    "lie anywhere in memory. A table says which block comes next. So no sequence has to reserve "
    "room for the longest answer it might give, and two sequences that begin alike share blocks. "
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", help="default: the default model")
    parser.add_argument("--input-len", type=int, default=128, help="prompt length in tokens (128)")
    parser.add_argument("--output-len", type=int, default=64, help="tokens per answer (64)")
    parser.add_argument("--rounds", type=int, default=3, help="the median counts (3)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="torch threads")
    parser.add_argument("--output-json", help="write the result to this file as well")


def main(args: argparse.Namespace) -> int:
    torch.set_num_threads(args.threads)
    llm = LLM(args.model, device="cpu", dtype="float32", max_model_len=2048)
    ids = llm.get_tokenizer().encode(TEXT * (1 + args.input_len // 60))[: args.input_len]
    engines = {
        "tinyvllm": lambda n: _ours(llm, ids, n),
        "transformers": _transformers(llm, args.model, ids),
    }
    for run in engines.values():
        run(4)  # warm-up
    seconds = {name: [] for name in engines}
    ticks, own = machine.cpu_ticks(), time.process_time()
    for number in range(args.rounds):
        for name, run in engines.items():
            first, whole = _timed(run, 1), _timed(run, args.output_len)
            step = (whole - first) / (args.output_len - 1)
            seconds[name].append({"first": first, "step": step})
            print(f"round {number + 1}  {name:13} {1 / step:6.1f} tokens/s", flush=True)
    others = machine.busy_cores(ticks, machine.cpu_ticks(), time.process_time() - own)
    result = {
        "benchmark": "decode, batch 1, float32, CPU",
        "input_len": args.input_len,
        "output_len": args.output_len,
        "tokens_per_second": {n: _speeds(rounds) for n, rounds in seconds.items()},
        "others_busy_cores": others,
        "machine": machine.describe(),
    }
    speeds = {n: s["median"] for n, s in result["tokens_per_second"].items()}
    result["ratio"] = round(speeds["tinyvllm"] / speeds["transformers"], 2)
    print(json.dumps(result, indent=1))
    print(f"tinyvllm decodes {result['ratio']} times as fast as transformers.generate.")
    if args.output_json:
        machine.write_result(result, args.output_json)
    return 0


def _ours(llm: LLM, ids: list[int], tokens: int) -> None:
    params = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
    (output,) = llm.generate({"prompt_token_ids": ids}, params, use_tqdm=False)
    assert len(output.outputs[0].token_ids) == tokens


def _transformers(llm: LLM, model: str | None, ids: list[int]):
    from transformers import AutoModelForCausalLM

    from tinyvllm.hub import resolve_model

    oracle = AutoModelForCausalLM.from_pretrained(resolve_model(model), dtype=torch.float32).eval()
    prompt = torch.tensor([ids])

    @torch.inference_mode()
    def run(tokens: int) -> None:
        out = oracle.generate(
            prompt, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, eos_token_id=None
        )
        assert out.shape[1] == len(ids) + tokens

    return run


def _timed(run, tokens: int) -> float:
    started = time.perf_counter()
    run(tokens)
    return time.perf_counter() - started


def _speeds(rounds: list[dict]) -> dict:
    speeds = sorted(1 / r["step"] for r in rounds)
    return {
        "median": round(statistics.median(speeds), 1),
        "min": round(speeds[0], 1),
        "max": round(speeds[-1], 1),
        "first_token_seconds": round(statistics.median(r["first"] for r in rounds), 3),
    }
