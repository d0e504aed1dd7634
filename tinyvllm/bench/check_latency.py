"""How long a student waits for `%check`: from asking to the words, in the warm worker.

The first check waits for the worker's imports, which begin when the notebook is opened; the others
are what a person feels. The reference's cells are checked, as if a student had written them.
"""

import argparse
import json
import os
import statistics
import time

from tinyvllm.bench import machine
from tinyvllm.course.check import Checker
from tinyvllm.course.project import Project
from tinyvllm.course.promote import reference_cells


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--exercise", default="2.2", help="whose check is timed (2.2)")
    parser.add_argument("--rounds", type=int, default=20, help="warm checks; the median counts")
    parser.add_argument("--output-json", help="write the result to this file as well")


def main(args: argparse.Namespace) -> int:
    project = Project.here()
    chapter = project.chapter(int(args.exercise.split(".")[0]))
    cells = reference_cells(chapter)
    seconds = []
    with Checker(project) as checker:
        for _ in range(1 + args.rounds):
            started = time.perf_counter()
            outcome = checker.exercise(chapter, cells, args.exercise)
            seconds.append(time.perf_counter() - started)
            if not outcome.passed:
                print(outcome.words)
                return 1
    first, *warm = seconds
    result = {
        "benchmark": f"check of exercise {args.exercise}, from asking to the words",
        "first_seconds": first,
        "seconds": {"median": statistics.median(warm), "worst": max(warm), "all": warm},
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "machine": machine.describe(),
    }
    print(json.dumps(result, indent=1))
    if args.output_json:
        machine.write_result(result, args.output_json)
    return 0
