"""Profile mode counts what a GPU counts: against theory, and against Nsight Compute on an H200."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from ncu_fixture import parse
from profiled_launches import FURTHER_METRICS, LAUNCHES, METRICS, Launch, counts

FIXTURE = Path(__file__).with_name("ncu.json")
BY_NAME = {launch.name: launch for launch in LAUNCHES}


@cache
def emulated(name: str) -> dict[str, int]:
    return counts(BY_NAME[name].profile())


def held(numbers: dict[str, int]) -> dict[str, int]:
    return {m: numbers[m] for m in METRICS}


@pytest.mark.parametrize("launch", LAUNCHES, ids=lambda launch: launch.name)
def test_counts_are_those_of_theory(launch: Launch):
    expected = dict(zip(METRICS, launch.theory))
    assert {m: emulated(launch.name)[m] for m in expected} == expected


@pytest.mark.parametrize("launch", LAUNCHES, ids=lambda launch: launch.name)
def test_counts_are_those_of_nsight_compute(launch: Launch):
    if not FIXTURE.exists():
        pytest.skip(
            "ncu.json is not there: python tests/cuda/profile/ncu_fixture.py on a GPU writes it"
        )
    measured = json.loads(FIXTURE.read_text())["counts"]
    assert held(emulated(launch.name)) == held(measured[launch.name])


def test_at_least_ten_kernels_are_compared_and_names_are_unique():
    assert len({launch.kernel for launch in LAUNCHES}) >= 10
    assert len(BY_NAME) == len(LAUNCHES)


def test_ncus_table_is_read_by_launch_and_metric():
    metrics = METRICS | FURTHER_METRICS
    rows = [
        "==PROF== Connected to process 1",
        '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"',
    ]
    for i, launch in enumerate(LAUNCHES):
        kernel = launch.kernel.split("<")[0]
        rows += [f'"{i}","{kernel}","{m}","sector","1,{i:03}"' for m in metrics.values()]
    read = parse("\n".join(rows), metrics)
    assert read[LAUNCHES[3].name] == dict.fromkeys(metrics, 1003)
    with pytest.raises(ValueError, match="no table"):
        parse("==ERROR== no permission", metrics)
    with pytest.raises(ValueError, match="no number for global load sectors"):
        parse("\n".join(r for r in rows if "sectors_pipe_lsu_mem_global_op_ld" not in r), metrics)
