"""The embedding kernels of chapter 03 on a GPU, against what the memory can do.

A launch is timed inside a CUDA graph of launches, so the host's own time is left out. Each launch
of a graph has its own token ids and output: up to 200, and from 8,192 tokens on 512 MiB of
outputs, which no L2 cache holds. Few tokens, and the table of the small model (57 MB), may stay in
L2.
"""

import argparse
import json
import sys
from pathlib import Path

import torch

from tinyvllm.bench import machine
from tinyvllm.bench.graph import microseconds
from tinyvllm.cuda import RawModule, load

RESULTS = Path(__file__).parent / "results" / "embedding_h200.json"
SHAPES = {"SmolLM2-135M": (49_152, 576), "Llama-3.2-1B": (128_256, 2_048)}  # vocab, hidden size
TOKENS = (1, 256, 8_192, 65_536)
ROTATED_BYTES = 512 << 20  # of a graph's outputs
ROW_PER_THREAD = """
__global__ void embedding_row_per_thread(scalar_t* out, const long long* token_ids,
                                         const scalar_t* weight, int hidden_size, int num_tokens) {
    long long t = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= num_tokens) return;
    for (int i = 0; i < hidden_size; i++)
        out[t * hidden_size + i] = weight[token_ids[t] * hidden_size + i];
}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--replays", type=int, default=20, help="the median counts (20)")
    parser.add_argument("--output-json", default=str(RESULTS), help="where the result goes")


def main(args: argparse.Namespace) -> int:
    if not torch.cuda.is_available():
        print("This benchmark times kernels on an NVIDIA GPU, and there is none here.")
        return 1
    rows = []
    for model, (vocab_size, hidden_size) in SHAPES.items():
        weight = torch.randn(vocab_size, hidden_size, device="cuda").to(torch.bfloat16)
        for num_tokens in TOKENS:
            row = {"model": model, "hidden_size": hidden_size, "num_tokens": num_tokens}
            row["bytes"] = num_tokens * (2 * hidden_size * weight.element_size() + 8)
            row["microseconds"] = _times(weight, num_tokens, args.replays)
            rows.append(row)
            print(json.dumps(row), flush=True)
    result = {
        "benchmark": "embedding lookup, bf16, random tokens, launches inside a CUDA graph",
        "replays": args.replays,
        "rows": rows,
        "machine": machine.describe(),
    }
    machine.write_result(result, args.output_json)
    print(f"written to {args.output_json}")
    return 0


def _times(weight: torch.Tensor, num_tokens: int, replays: int) -> dict[str, float]:
    """Microseconds of a launch, by version. A version whose rows are wrong ends the program."""
    vocab_size, hidden_size = weight.shape
    out_bytes = num_tokens * hidden_size * weight.element_size()
    launches = max(2, min(200, -(-ROTATED_BYTES // out_bytes)))
    ids = torch.randint(vocab_size, (launches, num_tokens), device="cuda")
    outs = torch.empty(launches, num_tokens, hidden_size, dtype=weight.dtype, device="cuda")
    times = {}
    for name, launch in _versions(weight, num_tokens).items():
        outs.fill_(torch.nan)
        times[name] = round(microseconds(launch, zip(outs, ids), replays), 3)
        for out, row_ids in zip(outs, ids):
            if not torch.equal(out, weight[row_ids]):
                sys.exit(f"{name} copied wrong rows ({num_tokens} tokens of {hidden_size})")
    return times


def _versions(weight: torch.Tensor, num_tokens: int) -> dict:
    """Name -> launch(out, token_ids)."""
    vocab_size, hidden_size = weight.shape
    module = RawModule(ROW_PER_THREAD, scalar_t="bf16")
    per_row = module.get_function("embedding_row_per_thread")
    scalar = load("embedding.cu", "embedding", scalar_t="bf16")
    wide = load("embedding.cu", "embedding_wide", scalar_t="bf16")
    pieces = hidden_size * weight.element_size() // 16

    def threads(items: int) -> int:
        return min(1024, -(-items // 32) * 32)

    grid = (num_tokens,)
    return {
        "one thread a row": lambda out, ids: per_row(
            (-(-num_tokens // 128),), (128,), (out, ids, weight, hidden_size, num_tokens)
        ),
        "embedding": lambda out, ids: scalar(
            grid, (threads(hidden_size),), (out, ids, weight, hidden_size, vocab_size)
        ),
        "embedding_wide": lambda out, ids: wide(
            grid, (threads(pieces),), (out, ids, weight, pieces, vocab_size)
        ),
        "torch.index_select": lambda out, ids: torch.index_select(weight, 0, ids, out=out),
    }
