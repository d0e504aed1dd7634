"""`%check`: what passes, what fails, and with which words."""

import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from toy_course import set_text, solve

from tinyvllm.course import notebooks
from tinyvllm.course.check import Checker, Outcome, cuda_names
from tinyvllm.course.collect import collect
from tinyvllm.course.project import Project
from tinyvllm.course.sandbox import environment

DOUBLE = "#| exercise 7.1 points=2\n#| promote toy/double.py\ndef double(x):\n"


def outcome(toy: Project, checker: Checker, number: str) -> Outcome:
    chapter = toy.chapter(int(number.split(".")[0]))
    return checker.exercise(chapter, collect(chapter, chapter.notebook).cells, number)


@pytest.mark.parametrize("number", ["7.1", "7.2", "7.3", "7.4"])
def test_the_solution_passes(toy: Project, checker: Checker, number: str):
    solve(toy.chapter(7))
    assert outcome(toy, checker, number) == Outcome(True, f"✓ exercise {number}")


@pytest.mark.parametrize("number", ["7.1", "7.2", "7.3", "7.4"])
def test_the_untouched_stub_fails_as_still_to_do(toy: Project, checker: Checker, number: str):
    result = outcome(toy, checker, number)
    assert not result.passed and not result.started
    assert f"exercise {number} is still to do" in result.words


def test_a_wrong_answer_is_told_where_and_how(toy: Project, checker: Checker):
    set_text(toy.chapter(7), "#| exercise 7.1 points=2", DOUBLE + "    return x * x")
    assert outcome(toy, checker, "7.1").words.splitlines() == [
        "✗ exercise 7.1: doubles each element",
        "  double([0, 1, 2]):",
        "    first difference at index 1: got 1, expected 2",
        "    1 of 3 elements differ",
        "    hint: x + x",
        "  (1 of 2 tests fail)",
    ]


def test_an_error_is_shown_with_the_line_of_the_students_cell(toy: Project, checker: Checker):
    text = DOUBLE + "    y = x\n    return y + undefined"
    set_text(toy.chapter(7), "#| exercise 7.1 points=2", text)
    words = outcome(toy, checker, "7.1").words
    assert "NameError: name 'undefined' is not defined" in words
    assert "in the cell of exercise 7.1, line 5: return y + undefined" in words


def test_what_the_code_printed_is_shown_when_it_fails(toy: Project, checker: Checker):
    text = DOUBLE + "    print('x is', x)\n    return x"
    set_text(toy.chapter(7), "#| exercise 7.1 points=2", text)
    assert "your code printed:\n    x is [0 1 2]" in outcome(toy, checker, "7.1").words


def test_broken_python_is_told_with_its_line(toy: Project, checker: Checker):
    set_text(toy.chapter(7), "#| exercise 7.1 points=2", DOUBLE + "    return (x")
    assert "line 4 of its cell" in outcome(toy, checker, "7.1").words


def test_the_reference_in_the_package_can_not_pass_for_the_student(toy: Project, checker: Checker):
    text = DOUBLE + "    from tinyvllm.toy import double as module\n    return module.double(x)"
    set_text(toy.chapter(7), "#| exercise 7.1 points=2", text)
    assert "RecursionError" in outcome(toy, checker, "7.1").words


def test_an_exercise_that_needs_an_unfinished_one_says_so(toy: Project, checker: Checker):
    solve(toy.chapter(7), "7.2")
    assert "this needs exercise 7.1 first" in outcome(toy, checker, "7.2").words


@pytest.mark.parametrize(
    "broken", ["def quadruple(x:", "raise ValueError('at import')", "quadruple = nonsense"]
)
def test_another_exercise_that_is_broken_spoils_nothing(
    toy: Project, checker: Checker, broken: str
):
    solve(toy.chapter(7), "7.1")
    text = f"#| exercise 7.2\n#| promote toy/double.py\n{broken}"
    set_text(toy.chapter(7), "#| exercise 7.2 points=3", text)
    assert outcome(toy, checker, "7.1").passed


def test_an_exercise_whose_own_cell_fails_at_import_is_told(toy: Project, checker: Checker):
    text = "#| exercise 7.1\n#| promote toy/double.py\nraise ValueError('at import')"
    set_text(toy.chapter(7), "#| exercise 7.1 points=2", text)
    words = outcome(toy, checker, "7.1").words
    assert "ValueError: at import" in words and "the cell of exercise 7.1, line 3" in words


def test_an_endless_loop_ends_with_words(toy: Project, checker: Checker):
    text = DOUBLE.replace("points=2", "seconds=1") + "    while True: pass"
    set_text(toy.chapter(7), "#| exercise 7.1 points=2", text)
    words = outcome(toy, checker, "7.1").words
    assert "not finished after 1 seconds" in words and "doubles each element" in words


def test_an_endless_loop_at_import_ends_with_words(toy: Project, checker: Checker):
    text = "#| exercise 7.1 seconds=1\n#| promote toy/double.py\nwhile True:\n    pass"
    set_text(toy.chapter(7), "#| exercise 7.1 points=2", text)
    assert "not finished after 1 seconds" in outcome(toy, checker, "7.1").words


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os; os._exit(0)", "the code ended Python itself"),
        ("import sys; sys.exit()", "the code ended Python"),
        ("import os; os.kill(os.getpid(), 11)", "Python crashed (SIGSEGV)"),
        ("return np.ones(1 << 40, np.uint8)", "more memory than a check may use"),
    ],
)
def test_code_that_ends_or_exhausts_python_ends_with_words(
    toy: Project, checker: Checker, code: str, said: str
):
    set_text(toy.chapter(7), "#| exercise 7.1 points=2", f"{DOUBLE}    {code}")
    assert said in outcome(toy, checker, "7.1").words


def test_memory_that_grows_step_by_step_ends_with_words(toy: Project, checker: Checker):
    chapter = toy.chapter(7)
    text = DOUBLE + "    kept = []\n    while True:\n        kept.append(np.ones(1 << 23))"
    set_text(chapter, "#| exercise 7.1 points=2", text)
    cells = collect(chapter, chapter.notebook).cells
    from tinyvllm.course.modules import module_texts

    reply = checker.run(
        chapter, cells, module_texts(cells, ""), ["test_7_1_keeps_the_dtype"], 60, 300 << 20
    )
    results = [event["result"] for event in reply["events"] if "result" in event]
    assert "memory" in reply["ended"] or "Memory" in results[0]["kind"]


def test_the_worker_still_answers_after_a_crash(toy: Project, checker: Checker):
    set_text(toy.chapter(7), "#| exercise 7.1 points=2", DOUBLE + "    import os; os.abort()")
    assert "crashed" in outcome(toy, checker, "7.1").words
    set_text(toy.chapter(7), "#| exercise 7.1 points=2", DOUBLE + "    return x + x")
    assert outcome(toy, checker, "7.1").passed


def test_a_module_of_the_same_size_is_not_mistaken_for_the_last_one(toy: Project, checker: Checker):
    chapter = toy.chapter(7)
    set_text(chapter, "#| exercise 7.1 points=2", DOUBLE + "    return x + x")
    assert outcome(toy, checker, "7.1").passed
    set_text(chapter, "#| exercise 7.1 points=2", DOUBLE + "    return x - x")
    assert not outcome(toy, checker, "7.1").passed


def test_an_unfinished_kernel_does_not_spoil_a_finished_one(toy: Project, checker: Checker):
    chapter = toy.chapter(7)
    notebook = notebooks.read(chapter.notebook)
    unfinished = '%%cuda other\n//| exercise 7.9\n//| promote kernels/toy.cu\n#error "exercise 7.9"'
    notebook["cells"].append({"cell_type": "code", "source": unfinished, "metadata": {}})
    chapter.notebook.write_text(json.dumps(notebook))
    solve(chapter, "7.4")
    assert outcome(toy, checker, "7.4").passed


def test_what_a_cuda_cell_defines_is_seen():
    text = """
    #define WARP 32
    struct Pair { float a, b; };
    template <typename T> __device__ T halved(T x) { return x / 2; }
    // __device__ int commented(int x) { }
    extern "C" __global__ void twice(float* x, int n) { if (n) { x[0] *= 2; } }
    """
    assert cuda_names(text) == {"WARP", "Pair", "halved", "twice"}


def test_a_later_chapter_is_checked_on_the_package_as_it_is(toy: Project, checker: Checker):
    solve(toy.chapter(8))
    assert outcome(toy, checker, "8.1").passed
    (toy.package / "toy/double.py").write_text("def quadruple(x):\n    return x\n")
    assert not outcome(toy, checker, "8.1").passed


def test_a_killed_notebook_leaves_no_process_and_no_folder(toy: Project, tmp_path: Path):
    solve(toy.chapter(7))
    program = """
import os, signal
from tinyvllm.course.check import Checker
from tinyvllm.course.project import Project
from tinyvllm.course.promote import reference_cells

project = Project.here()
checker = Checker(project)
chapter = project.chapter(7)
assert checker.exercise(chapter, reference_cells(chapter), "7.1").passed
print(checker._worker._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    (tmp_path / "temporary").mkdir()
    env = environment(toy.root) | {"TMPDIR": str(tmp_path / "temporary")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=toy.root, env=env, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(done.stdout)).wait()
    assert list((tmp_path / "temporary").iterdir()) == []
