"""`tinyvllm bench NAME`: one module a benchmark, imported when it is asked for."""

import argparse
from collections.abc import Sequence
from importlib import import_module

BENCHMARKS = {
    "check_latency": "how long a student waits for %check",
    "decode": "decode speed at batch 1 beside transformers, on the CPU",
    "embedding": "the embedding kernels of chapter 03, on a GPU",
    "rms_norm": "the RMSNorm kernels of chapter 04, on a GPU",
    "rope": "the RoPE kernels of chapter 05, on a GPU",
    "startup": "seconds from starting a process to its first token",
}


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="tinyvllm bench")
    commands = parser.add_subparsers(dest="name", required=True, metavar="benchmark")
    chosen = argv[0] if argv else None
    for name, what in BENCHMARKS.items():
        sub = commands.add_parser(name, help=what)
        if name == chosen:
            import_module(f"tinyvllm.bench.{name}").add_arguments(sub)
    args = parser.parse_args(argv)
    return import_module(f"tinyvllm.bench.{args.name}").main(args)
