"""What a measurement was taken on: processor, cores, load, versions."""

import importlib.metadata
import json
import os
import platform
from pathlib import Path

import torch

PACKAGES = ("tinyvllm", "torch", "transformers", "numpy", "cupy-cuda12x", "cupy-cuda13x")


def describe() -> dict:
    """Plain data for a result's JSON: the machine now, at this load."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "simd": torch.backends.cpu.get_cpu_capability(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_average": [round(x, 2) for x in os.getloadavg()],
        "versions": {n: v for n in PACKAGES if (v := _version(n))},
    }


def write_result(result: dict, path: str | Path) -> None:
    """A result as JSON, its folder made where it isn't there."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def busy_cores(before: tuple[int, int], after: tuple[int, int], own_seconds: float) -> float:
    """Cores that others kept busy between two `cpu_ticks`, beside `own_seconds` of ours."""
    ticks_per_second = os.sysconf("SC_CLK_TCK")
    busy, total = (b - a for a, b in zip(before, after))
    elapsed = total / ticks_per_second / os.cpu_count()
    return round(max(0.0, busy / ticks_per_second - own_seconds) / elapsed, 2) if elapsed else 0.0


def cpu_ticks() -> tuple[int, int]:
    """(busy, total) clock ticks of all cores since boot; zeros where there is no /proc."""
    try:
        fields = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except OSError:
        return 0, 0
    idle = fields[3] + fields[4]
    return sum(fields) - idle, sum(fields)


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
