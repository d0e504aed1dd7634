"""Writes ncu.json: what Nsight Compute counts in the launches of profiled_launches.py.

On a machine with a GPU:

python tests/cuda/profile/ncu_fixture.py             # measures, writes ncu.json, compares
python tests/cuda/profile/ncu_fixture.py --compare   # compares the stored numbers, needs no GPU

It needs `ncu` on the PATH, CuPy, and the right to read counters. One run of ncu profiles all.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[3])]

from profiled_launches import FURTHER_METRICS, LAUNCHES, METRICS, counts  # noqa: E402

FIXTURE = Path(__file__).with_name("ncu.json")


def launch_all() -> None:
    """What runs under ncu."""
    for launch in LAUNCHES:
        launch.run("cuda")
    torch.cuda.synchronize()


def measure() -> dict:
    """Runs ncu over launch_all. Raises RuntimeError, with ncu's words, if a launch is missing."""
    metrics = METRICS | FURTHER_METRICS
    kernels = sorted({launch.kernel.split("<")[0] for launch in LAUNCHES})
    command = [
        "ncu", "--csv", "--print-units", "base", "--clock-control", "none",
        "--kernel-name-base", "function", "--kernel-name", f"regex:^({'|'.join(kernels)})$",
        "--metrics", ",".join(metrics.values()),
        sys.executable, str(Path(__file__).resolve()), "--launch",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        measured = parse(done.stdout, metrics)
    except ValueError as error:
        raise RuntimeError(f"{error}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}") from None
    return {"machine": machine(), "counts": measured}


def parse(output: str, metrics: dict[str, str]) -> dict[str, dict[str, int]]:
    """ncu's CSV (one row a launch and metric) as launch name -> our metric's name -> count."""
    lines = output.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise ValueError("ncu printed no table")
    names = {theirs: ours for ours, theirs in metrics.items()}
    by_id: dict[int, dict[str, int]] = {}
    kernel_of: dict[int, str] = {}
    for row in csv.DictReader(lines[start:]):
        number = re.sub(r"[,\s]", "", row["Metric Value"])
        id_ = int(row["ID"])
        kernel_of[id_] = row["Kernel Name"]
        if re.fullmatch(r"\d+(\.0*)?", number):
            by_id.setdefault(id_, {})[names[row["Metric Name"]]] = int(float(number))
    if len(kernel_of) != len(LAUNCHES):
        raise ValueError(f"ncu saw {len(kernel_of)} launches of {len(LAUNCHES)}")
    found = {}
    for launch, id_ in zip(LAUNCHES, sorted(kernel_of)):
        expected = launch.kernel.split("<")[0]
        if not re.search(rf"\b{expected}\b", kernel_of[id_]):
            raise ValueError(f"launch {id_} is {kernel_of[id_]}, expected {expected}")
        if missing := set(METRICS) - set(by_id.get(id_, {})):
            raise ValueError(f"{launch.name}: no number for {', '.join(sorted(missing))}")
        found[launch.name] = by_id[id_]
    return found


def machine() -> dict[str, str]:
    import cupy

    version = subprocess.run(["ncu", "--version"], capture_output=True, text=True).stdout
    return {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cupy": cupy.__version__,
        "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())),
        "ncu": next(iter(re.findall(r"Version (\S+)", version)), ""),
    }


def comparison(measured: dict[str, dict[str, int]]) -> str:
    """A table of all launches; where emulator and GPU differ it shows `emulator != GPU`."""
    metrics = list(METRICS) + list(FURTHER_METRICS)
    rows, wrong = [["", *metrics]], 0
    for launch in LAUNCHES:
        ours, theirs = counts(launch.profile()), measured[launch.name]
        cells = []
        for m in metrics:
            same = ours[m] == theirs.get(m)
            wrong += m in METRICS and not same
            cells.append(f"{ours[m]}" if same else f"{ours[m]} != {theirs.get(m, 'n/a')}")
        rows.append([launch.name, *cells])
    rows[0] = ["", *(m.replace("global ", "g.").replace("shared ", "s.") for m in metrics)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    table = "\n".join(
        "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths)))
        for row in rows
    )
    kinds = len({launch.kernel for launch in LAUNCHES})
    return (
        f"{table}\n{len(LAUNCHES)} launches of {kinds} kernels; {wrong} of "
        f"{len(LAUNCHES) * len(METRICS)} numbers that must be equal differ"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launch", action="store_true", help="only launch (what ncu runs)")
    parser.add_argument(
        "--compare", action="store_true", help="only compare with the stored numbers"
    )
    options = parser.parse_args()
    if options.launch:
        launch_all()
        return
    if not options.compare:
        FIXTURE.write_text(json.dumps(measure(), indent=1) + "\n")
        print(f"wrote {FIXTURE}")
    print(comparison(json.loads(FIXTURE.read_text())["counts"]))


if __name__ == "__main__":
    main()
