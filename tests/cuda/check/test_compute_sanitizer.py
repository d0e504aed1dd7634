"""Check mode and NVIDIA's compute-sanitizer agree about the corpus, but for what the latter says it
can't see.

compute_sanitizer.json was written on an H200 by sanitize.py; test_check_corpus.py holds check mode
to the same list.
"""

import json
from pathlib import Path

import pytest
from check_corpus import CORRECT, FAULTY

FIXTURE = Path(__file__).parent / "compute_sanitizer.json"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
ASKED = [c for c in FAULTY if c.tool and not c.hangs]


@pytest.fixture(scope="module")
def verdicts() -> dict:
    return json.loads(FIXTURE.read_text())["kernels"]


@pytest.mark.parametrize("case", ASKED, ids=lambda c: c.kernel)
def test_compute_sanitizer_finds_the_fault_unless_it_can_not_see_it(case, verdicts):
    verdict = verdicts[case.kernel][case.tool]
    assert "not_run" not in verdict
    assert verdict["found"] == (not case.missed), (verdict, case.missed)


@pytest.mark.parametrize("case", [c for c in ASKED if not c.missed], ids=lambda c: c.kernel)
def test_it_names_a_line_of_the_fault(case, verdicts):
    lines = verdicts[case.kernel][case.tool]["lines"]
    assert not lines or case.lines() & set(lines)


@pytest.mark.parametrize("case", CORRECT, ids=lambda c: c.kernel)
def test_compute_sanitizer_finds_nothing_in_a_correct_kernel_unless_it_errs(case, verdicts):
    for tool in TOOLS:
        verdict = verdicts[case.kernel][tool]
        accused = tool == "racecheck" and bool(case.accused)
        assert verdict["found"] == accused and "not_run" not in verdict, (tool, verdict)


@pytest.mark.parametrize("case", CORRECT, ids=lambda c: c.kernel)
def test_the_gpu_computes_what_is_expected(case, verdicts):
    assert verdicts[case.kernel]["result"] == "right"
