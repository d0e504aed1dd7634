"""From starting a process to its first token: what a person waits for, model in the cache."""

import argparse
import json
import statistics
import subprocess
import sys
import time

from tinyvllm.bench import machine

PROGRAM = """
from tinyvllm import LLM, SamplingParams
llm = LLM(use_tqdm_on_load=False)
prompt = llm.chat_prompt([{"role": "user", "content": "What is the capital of France?"}])
next(llm.stream(prompt, SamplingParams(temperature=0, max_tokens=16)))
print("first token", flush=True)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=3, help="the median counts (3)")
    parser.add_argument("--output-json", help="write the result to this file as well")


def main(args: argparse.Namespace) -> int:
    seconds = []
    for _ in range(args.rounds):
        started = time.perf_counter()
        with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            seconds.append(time.perf_counter() - started)
    result = {
        "benchmark": "start of the process to the first token, warm cache",
        "seconds": {"median": statistics.median(seconds), "all": seconds},
        "machine": machine.describe(),
    }
    print(json.dumps(result, indent=1))
    if args.output_json:
        machine.write_result(result, args.output_json)
    return 0
