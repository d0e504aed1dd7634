"""Promotion: what is refused, that nothing changes then, and that it is all or none."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from toy_course import cell_with, package_texts, set_text, solve, words

from tinyvllm.course import journal, notebooks
from tinyvllm.course.check import Checker
from tinyvllm.course.collect import Run, Runs
from tinyvllm.course.modules import whose
from tinyvllm.course.project import Project
from tinyvllm.course.promote import NotPromoted, promote
from tinyvllm.course.reset import reset

WRONG = "#| exercise 7.1\n#| promote toy/double.py\ndef double(x):\n    return x"


def refused(toy: Project, checker: Checker, runs: Runs | None = None) -> str:
    """Promote chapter 7, see that it is refused and changes nothing, and return its words."""
    before = package_texts(toy)
    with pytest.raises(NotPromoted) as caught:
        promote(toy, toy.chapter(7), checker, runs=runs)
    assert package_texts(toy) == before
    return words(caught.value)


def test_right_answers_become_the_modules(toy: Project, checker: Checker):
    chapter = toy.chapter(7)
    solve(chapter)
    said: list[str] = []
    promote(toy, chapter, checker, say=said.append)
    module = (toy.package / "toy/double.py").read_text()
    assert module.startswith(
        "# Your code, from chapters/07_toy.ipynb. Back to the reference: make reset-chapter 7\n"
        '"""Doubling, and what follows from it."""\n'
    )
    assert "    return x + x\n# mine\n" in module and "SOLUTION" not in module
    kernel = (toy.package / "kernels/toy.cu").read_text()
    assert kernel.startswith("// Your code") and "*= 2;" in kernel and "%%cuda" not in kernel
    assert whose(toy.package / "toy/sizes.py") == "student"
    assert said[0] == "tinyvllm/toy/double.py now holds your code"


def test_reset_brings_the_reference_back_byte_for_byte(toy: Project, checker: Checker):
    before = package_texts(toy)
    solve(toy.chapter(7))
    promote(toy, toy.chapter(7), checker)
    assert package_texts(toy) != before
    reset(toy, toy.chapter(7))
    assert package_texts(toy) == before


def test_stubs_are_refused_by_name(toy: Project, checker: Checker):
    solve(toy.chapter(7), "7.1", "7.3")
    assert "still to do: exercise 7.2, exercise 7.4" in refused(toy, checker)


def test_a_wrong_answer_is_refused_with_the_words_of_its_test(toy: Project, checker: Checker):
    solve(toy.chapter(7))
    set_text(toy.chapter(7), "#| exercise 7.1 points=2", WRONG)
    assert "got 1, expected 2" in refused(toy, checker)


def test_broken_python_is_refused(toy: Project, checker: Checker):
    solve(toy.chapter(7))
    set_text(toy.chapter(7), "#| exercise 7.1 points=2", WRONG.replace("return x", "return (x"))
    assert "the cell of exercise 7.1: '(' was never closed" in refused(toy, checker)


def test_a_cell_counts_as_it_ran_although_it_was_not_saved(toy: Project, checker: Checker):
    chapter = toy.chapter(7)
    solve(chapter, "7.2", "7.3", "7.4")
    typed = WRONG.replace("return x", "return 2 * x  # typed")
    runs = Runs({"ch07-ex-7-1": Run(typed, started=2e9)})
    promote(toy, chapter, checker, runs=runs)
    assert "return 2 * x  # typed" in (toy.package / "toy/double.py").read_text()
    assert "typed" not in chapter.notebook.read_text()


def test_a_cell_that_was_edited_after_it_ran_is_refused_by_name(toy: Project, checker: Checker):
    solve(toy.chapter(7))
    runs = Runs({"ch07-ex-7-1": Run(WRONG, started=0.0)})
    said = refused(toy, checker, runs)
    assert "the cell of exercise 7.1 was edited after it last ran: run it again" in said


def test_a_cell_whose_last_run_failed_is_refused_by_name(toy: Project, checker: Checker):
    chapter = toy.chapter(7)
    solve(chapter)
    cell = cell_with(notebooks.read(chapter.notebook), "#| exercise 7.2 points=3")
    runs = Runs({"ch07-ex-7-2": Run("".join(cell["source"]), 2e9, "NameError: name 'y'")})
    said = refused(toy, checker, runs)
    assert "the cell of exercise 7.2 failed when it last ran: NameError: name 'y'" in said


def test_runs_without_ids_count_by_their_exercise(toy: Project, checker: Checker):
    chapter = toy.chapter(7)
    solve(chapter, "7.2", "7.3", "7.4")
    runs = Runs()
    runs.record(WRONG.replace("return x", "return x * 2"), None, "", 2e9)
    promote(toy, chapter, checker, runs=runs)
    assert "return x * 2" in (toy.package / "toy/double.py").read_text()


def test_a_promoted_cell_that_was_never_saved_asks_for_saving(toy: Project, checker: Checker):
    solve(toy.chapter(7))
    runs = Runs()
    runs.record("#| promote toy/double.py\nHELPER = 1", "new-cell", "", 2e9)
    assert "save the notebook" in refused(toy, checker, runs)


def test_the_solutions_notebook_promotes_nothing(toy: Project, checker: Checker):
    chapter = toy.chapter(7)
    with pytest.raises(NotPromoted, match="make build"):
        promote(toy, chapter, checker, notebook=chapter.solution)


def test_a_chapter_without_modules_promotes_nothing(toy: Project, checker: Checker):
    solve(toy.chapter(8))
    said: list[str] = []
    promote(toy, toy.chapter(8), checker, say=said.append)
    assert said == ["chapter 8 promotes nothing: its code stays in the notebook"]


KILLED = """
import os, signal, sys
from pathlib import Path
from tinyvllm.course import journal
from tinyvllm.course.project import Project

count = int(sys.argv[2])

def dying(call):
    def counted(*arguments, **named):
        global count
        if count == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        count -= 1
        return call(*arguments, **named)
    return counted

# Every call that changes the disk is a moment to die at.
os.replace, os.fsync, Path.unlink = dying(os.replace), dying(os.fsync), dying(Path.unlink)
journal.replace_modules(Project(Path(sys.argv[1])), {"a.py": "new", "b.py": "new", "c.cu": "new"})
"""


def test_killed_at_any_moment_a_promotion_leaves_all_old_or_all_new(tmp_path: Path):
    outcomes = []
    for moment in range(20):
        root = tmp_path / str(moment)
        (root / "tinyvllm").mkdir(parents=True)
        names = ("a.py", "b.py", "c.cu")
        for name in names:
            (root / "tinyvllm" / name).write_text("old")
        command = [sys.executable, "-c", KILLED, str(root), str(moment)]
        status = subprocess.run(command, env=dict(os.environ)).returncode
        journal.recover(Project(root))
        texts = {(root / "tinyvllm" / name).read_text() for name in names}
        assert len(texts) == 1, f"a mix after dying at moment {moment}"
        assert sorted(p.name for p in (root / "tinyvllm").iterdir() if p.suffix != ".tmp") == [
            *names
        ]
        outcomes.append((status, texts.pop()))
        if status == 0:
            break
    assert outcomes[0] == (-signal.SIGKILL, "old")
    assert outcomes[-1] == (0, "new")
    assert (-signal.SIGKILL, "new") in outcomes, "no moment was between the files"


def test_every_command_finishes_an_interrupted_promotion_first(toy: Project):
    from tinyvllm.course.cli import main

    toy.state.mkdir()
    (toy.state / "promotion.json").write_text(json.dumps({"toy/double.py": "# new\n"}))
    assert main(["status"], toy) == 0
    assert (toy.package / "toy/double.py").read_text() == "# new\n"
    assert not (toy.state / "promotion.json").exists()
