"""The benchmarks run, and say what they were measured on. How fast is no test's business."""

import json
import os

import pytest

from tinyvllm import cli
from tinyvllm.bench import machine


@pytest.mark.slow
def test_decode_measures_both_engines_and_says_on_what(tmp_path, capsys):
    path = tmp_path / "decode.json"
    argv = ["bench", "decode", "--rounds", "1", "--input-len", "8", "--output-len", "3"]
    assert cli.main([*argv, "--output-json", str(path)]) == 0
    result = json.loads(path.read_text())
    speeds = result["tokens_per_second"]
    assert set(speeds) == {"tinyvllm", "transformers"}
    assert all(s["min"] <= s["median"] <= s["max"] for s in speeds.values())
    assert result["ratio"] == pytest.approx(
        speeds["tinyvllm"]["median"] / speeds["transformers"]["median"], abs=0.2
    )
    assert result["machine"]["versions"]["torch"] and result["machine"]["processor"]
    assert "times as fast as transformers" in capsys.readouterr().out


@pytest.mark.slow
def test_startup_times_a_process_to_its_first_token(tmp_path, capsys, default_model_dir):
    path = tmp_path / "startup.json"
    assert cli.main(["bench", "startup", "--rounds", "1", "--output-json", str(path)]) == 0
    assert len(json.loads(path.read_text())["seconds"]["all"]) == 1


def test_others_work_is_what_we_did_not_do():
    # In 10 s, 15 core-seconds of work, 5 of them ours: others kept one core busy.
    ticks = os.sysconf("SC_CLK_TCK")
    before, after = (0, 0), (15 * ticks, 10 * ticks * os.cpu_count())
    assert machine.busy_cores(before, after, own_seconds=5.0) == 1.0
    assert machine.busy_cores(before, before, own_seconds=0.0) == 0.0
