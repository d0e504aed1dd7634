"""The RoPE kernels of chapter 05 on a GPU, against what the memory can do.

A launch is timed inside a CUDA graph of launches, so the host's own time is left out. Each launch
of a graph has its own q, k and outputs: up to 200, and 512 MiB where there are many tokens, which
no L2 cache holds. With few tokens everything may stay in L2, as it does in a decode step.
"""

import argparse
import json
import sys
from pathlib import Path

import torch

from tinyvllm.bench import machine
from tinyvllm.bench.graph import microseconds
from tinyvllm.cuda import RawModule, load
from tinyvllm.ops.rope import MAX_THREADS, cos_sin_table, inverse_frequencies, rope_reference

RESULTS = Path(__file__).parent / "results" / "rope_h200.json"
# num_heads, num_kv_heads, head_dim, theta
SHAPES = {"SmolLM2-135M": (9, 3, 64, 100_000.0), "Llama-3.2-1B": (32, 8, 64, 500_000.0)}
TOKENS = (1, 256, 8_192)
ROTATED_BYTES = 512 << 20  # of a graph's inputs and outputs
# A kernel without a table: each thread computes its angle.
NO_TABLE = """
extern "C" __global__ void rope_no_table(scalar_t* q_out, scalar_t* k_out, const scalar_t* q,
                                         const scalar_t* k, const long long* positions, float theta,
                                         int num_heads, int num_kv_heads, int head_dim) {
    size_t token = blockIdx.x;
    int half = head_dim / 2, q_pairs = num_heads * half, k_pairs = num_kv_heads * half;
    for (int i = threadIdx.x; i < q_pairs + k_pairs; i += blockDim.x) {
        bool is_q = i < q_pairs;
        int mine = is_q ? i : i - q_pairs;
        int pair = mine % half;
        size_t at = (token * (is_q ? num_heads : num_kv_heads) + mine / half) * head_dim + pair;
        const scalar_t* in = is_q ? q : k;
        scalar_t* out = is_q ? q_out : k_out;
        float x1 = float(in[at]), x2 = float(in[at + half]), cosine, sine;
        sincosf(positions[token] * powf(theta, -2.0f * pair / head_dim), &sine, &cosine);
        out[at] = scalar_t(x1 * cosine - x2 * sine);
        out[at + half] = scalar_t(x2 * cosine + x1 * sine);
    }
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
    for model, shape in SHAPES.items():
        num_heads, num_kv_heads, head_dim, _ = shape
        for num_tokens in TOKENS:
            row = {"model": model, "num_tokens": num_tokens}
            numbers = num_tokens * (num_heads + num_kv_heads) * head_dim
            row["bytes"] = 2 * 2 * numbers + num_tokens * (4 * head_dim + 8)
            row["microseconds"] = _times(shape, num_tokens, args.replays)
            rows.append(row)
            print(json.dumps(row), flush=True)
    result = {
        "benchmark": "RoPE of q and k, bf16, launches inside a CUDA graph",
        "replays": args.replays,
        "rows": rows,
        "machine": machine.describe(),
    }
    machine.write_result(result, args.output_json)
    print(f"written to {args.output_json}")
    return 0


def _times(shape: tuple, num_tokens: int, replays: int) -> dict[str, float]:
    """Microseconds of a launch, by version. A version that turns wrongly ends the program."""
    num_heads, num_kv_heads, head_dim, theta = shape
    table = cos_sin_table(inverse_frequencies(head_dim, theta), 8192).cuda()
    set_bytes = 2 * 2 * num_tokens * (num_heads + num_kv_heads) * head_dim
    launches = max(2, min(200, -(-ROTATED_BYTES // set_bytes)))
    options = {"dtype": torch.bfloat16, "device": "cuda"}
    sets = []
    for _ in range(launches):
        q = torch.randn(num_tokens, num_heads, head_dim, **options)
        k = torch.randn(num_tokens, num_kv_heads, head_dim, **options)
        sets.append((torch.empty_like(q), torch.empty_like(k), q, k))
    positions = torch.arange(num_tokens, device="cuda") % len(table)
    times = {}
    for name, launch in _versions(shape, positions, table).items():
        for q_out, k_out, _, _ in sets:
            q_out.fill_(torch.nan), k_out.fill_(torch.nan)
        times[name] = round(microseconds(launch, sets, replays), 3)
        if name == "torch":
            continue
        q_out, k_out, q, k = sets[-1]
        for actual, right in zip((q_out, k_out), rope_reference(positions, q, k, table)):
            # The kernel without a table has other angles, up to 1e-3 at these positions.
            if not torch.allclose(actual.float(), right.float(), atol=0.05, rtol=0.02):
                sys.exit(f"{name} turned wrongly ({num_tokens} tokens, {shape})")
    return times


def _versions(shape: tuple, positions: torch.Tensor, table: torch.Tensor) -> dict:
    """Name -> launch(q_out, k_out, q, k)."""
    num_heads, num_kv_heads, head_dim, theta = shape
    sizes, grid = (num_heads, num_kv_heads, head_dim), (len(positions),)
    pairs = (num_heads + num_kv_heads) * head_dim // 2
    no_table = RawModule(NO_TABLE, scalar_t="bf16").get_function("rope_no_table")
    plain = load("rope.cu", "rope", scalar_t="bf16")
    wide = load("rope.cu", "rope_wide", scalar_t="bf16")

    def threads(work: int) -> tuple[int]:
        return (min(MAX_THREADS, -(-work // 32) * 32),)

    return {
        "no table": lambda *qk: no_table(grid, threads(pairs), (*qk, positions, theta, *sizes)),
        "rope": lambda *qk: plain(grid, threads(pairs), (*qk, positions, table, *sizes)),
        "rope_wide": lambda *qk: wide(grid, threads(pairs // 8), (*qk, positions, table, *sizes)),
        "torch": lambda q_out, k_out, q, k: rope_reference(positions, q, k, table),
    }
