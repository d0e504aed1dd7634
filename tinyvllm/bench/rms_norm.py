"""The RMSNorm kernels of chapter 04 on a GPU, against the bytes that must move.

A launch is timed inside a CUDA graph of launches, so the host's own time is left out. Each launch
of a graph has its own input and output: up to 200, and from 8,192 tokens on 512 MiB of outputs,
which no L2 cache holds. Few tokens may stay in L2. The peer is torch's own rms_norm; "copy" moves
the same bytes and computes nothing.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from tinyvllm.bench import machine
from tinyvllm.bench.graph import microseconds
from tinyvllm.cuda import load
from tinyvllm.ops.rms_norm import rms_norm_reference

RESULTS = Path(__file__).parent / "results" / "rms_norm_h200.json"
HIDDEN_SIZES = (576, 2_048, 8_192)  # SmolLM2-135M, Llama-3.2-1B, Llama-3-70B
TOKENS = (1, 256, 8_192, 65_536)
ROTATED_BYTES = 512 << 20  # of a graph's outputs
BLOCK = 256  # of the trees, which want a power of two
EPS = 1e-5

# launch(out, x) fills out and returns None, or returns the result.
Launch = Callable[[torch.Tensor, torch.Tensor], torch.Tensor | None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--replays", type=int, default=20, help="the median counts (20)")
    parser.add_argument("--output-json", default=str(RESULTS), help="where the result goes")


def main(args: argparse.Namespace) -> int:
    if not torch.cuda.is_available():
        print("This benchmark times kernels on an NVIDIA GPU, and there is none here.")
        return 1
    rows = []
    for hidden_size in HIDDEN_SIZES:
        for num_tokens in TOKENS:
            row = {"hidden_size": hidden_size, "num_tokens": num_tokens}
            row["bytes"] = 2 * 2 * num_tokens * hidden_size  # x once in, out once out
            row["microseconds"] = measure(num_tokens, hidden_size, replays=args.replays)
            rows.append(row)
            print(json.dumps(row), flush=True)
    result = {
        "benchmark": "RMSNorm, bf16, launches inside a CUDA graph",
        "replays": args.replays,
        "rows": rows,
        "machine": machine.describe(),
    }
    machine.write_result(result, args.output_json)
    print(f"written to {args.output_json}")
    return 0


def measure(num_tokens: int, hidden_size: int, *, replays: int = 20) -> dict[str, float]:
    """Microseconds of a launch in bf16, by version. A version that computes something else than
    the reference ends the program."""
    out_bytes = num_tokens * hidden_size * 2
    launches = max(2, min(200, -(-ROTATED_BYTES // out_bytes)))
    shape = (launches, num_tokens, hidden_size)
    x = torch.randn(shape, dtype=torch.bfloat16, device="cuda")
    weight = torch.randn(hidden_size, device="cuda").bfloat16()
    outs = torch.empty_like(x)
    expected = rms_norm_reference(x[-1], weight, EPS).float()
    times = {}
    for name, launch in _versions(weight, num_tokens).items():
        outs.fill_(torch.nan)
        # The slowest one is not worth as many replays.
        times[name] = round(
            microseconds(launch, zip(outs, x), 3 if name == "serial" else replays), 3
        )
        result = launch(outs[-1], x[-1])
        result = outs[-1] if result is None else result
        wanted = x[-1].float() if name == "copy" else expected
        if not torch.allclose(result.float(), wanted, rtol=2e-2, atol=1e-2):
            sys.exit(f"{name} computed something else ({num_tokens} tokens of {hidden_size})")
    return times


def _versions(weight: torch.Tensor, num_tokens: int) -> dict[str, Launch]:
    hidden_size = weight.shape[0]
    steps = {
        name: load("rms_norm_steps.cu", f"rms_norm_{name}", scalar_t="bf16")
        for name in ("serial", "modulo", "tree")
    }
    shuffles = load("rms_norm.cu", "rms_norm", scalar_t="bf16")
    wide = load("rms_norm.cu", "rms_norm_wide", scalar_t="bf16")
    grid = (num_tokens,)
    wide_block = min(1024, -(-hidden_size // 256) * 32)  # one load of eight elements a thread

    def arrays(out, x):
        return out, x, weight, hidden_size, EPS

    return {
        "serial": lambda out, x: steps["serial"](
            (-(-num_tokens // 32),), (32,), (*arrays(out, x), num_tokens)
        ),
        "modulo": lambda out, x: steps["modulo"](grid, (BLOCK,), arrays(out, x)),
        "tree": lambda out, x: steps["tree"](grid, (BLOCK,), arrays(out, x)),
        "shuffles": lambda out, x: shuffles(grid, (BLOCK,), arrays(out, x)),
        "16 bytes": lambda out, x: wide(grid, (wide_block,), arrays(out, x)),
        "torch": lambda out, x: torch.nn.functional.rms_norm(x, (hidden_size,), weight, EPS),
        "copy": lambda out, x: out.copy_(x),
    }
