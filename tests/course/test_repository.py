"""The course as it stands in this repository: owned, not stale, and playable by a student."""

import re
from pathlib import Path

import pytest
from checkouts import clone, git
from test_magics import Kernel
from toy_course import solve

from tinyvllm.course import notebooks
from tinyvllm.course.check import Checker
from tinyvllm.course.cli import main
from tinyvllm.course.ownership import problems
from tinyvllm.course.project import Chapter, Project
from tinyvllm.course.promote import reference_cells
from tinyvllm.course.sandbox import run_python
from tinyvllm.course.testing import notebook_words

PROJECT = Project.here()
CHAPTERS = [chapter for chapter in PROJECT.chapters() if chapter.solution.exists()]
each_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=[c.name for c in CHAPTERS])


def test_every_module_has_exactly_one_owner():
    assert problems(PROJECT) == []


def test_nothing_that_build_makes_is_stale(capsys: pytest.CaptureFixture[str]):
    status = main(["build", "--check", "--full"], PROJECT)
    assert (capsys.readouterr().out, status) == ("", 0)


@pytest.mark.slow
@each_chapter
def test_the_solution_gives_its_stored_outputs_again(chapter: Chapter):
    cells = reference_cells(chapter)
    assert notebook_words(PROJECT, chapter, cells, chapter.solution, reference=True) == ""


@pytest.mark.slow
@each_chapter
def test_an_untouched_chapter_fails_only_for_its_exercises(chapter: Chapter, tmp_path: Path):
    kernel = Kernel(PROJECT.root, tmp_path, CUDA_VISIBLE_DEVICES="")
    defined: set[str] = set()
    unexpected = []
    try:
        for cell in notebooks.cells_of(notebooks.read(chapter.notebook)):
            if cell.kind != "code" or "nbval-skip" in cell.tags:
                continue
            defined |= set(
                re.findall(r"^(?:def |class |__global__ void )?(\w+)", cell.text, re.MULTILINE)
            )
            defined |= set(re.findall(r"^%%cuda .*?(\w+)$", cell.text, re.MULTILINE))
            kernel.run(cell.text, cell.id)
            kind, words = kernel.error
            name = re.match(r"name '(\w+)' is not defined", words)
            excused = {
                "": True,
                "NotImplementedError": words.startswith("exercise "),
                "CheckFailed": "is still to do" in words,
                "NameError": bool(name and name[1] in defined),
            }
            if not excused.get(kind):
                unexpected.append(f"{cell.label}: {kind}: {words}")
    finally:
        kernel.stop()
    assert unexpected == []


@pytest.mark.slow
def test_a_student_plays_the_whole_course(tmp_path: Path):
    project = clone(tmp_path / "tinyvllm")

    def course(*words: str) -> str:
        done = run_python(["-m", "tinyvllm", "course", *words], project.root, gpu=False)
        assert done.returncode == 0, done.stdout
        return done.stdout

    promoted: set[str] = set()
    for chapter in project.chapters():
        solve(chapter)
        said = course("promote", str(chapter.number))
        modules = re.findall(r"^(tinyvllm/\S+) now holds your code$", said, re.MULTILINE)
        assert modules or "promotes nothing" in said
        promoted |= set(modules)
    assert set(git(project.root, "diff", "--name-only", "tinyvllm").split()) == promoted
    for path in promoted:
        assert (project.root / path).read_text().startswith(("# Your code, ", "// Your code, "))

    # The tests of all chapters and of the engine on the student's code; then, as the longest way
    # through it, the notebook of the last chapter from top to bottom.
    tests = ["tests/chapters", "tests/engine/test_llm.py", "tests/engine/test_load.py"]
    command = ["-m", "pytest", "-q", "-m", "not slow and not gpu", "-p", "no:cacheprovider"]
    done = run_python([*command, *tests], project.root, gpu=False)
    assert done.returncode == 0, done.stdout
    last = project.chapters()[-1]
    said = course("test", str(last.number))
    assert f"✓ chapters/{last.name}.ipynb runs from top to bottom" in said

    course("reset", "all")
    assert git(project.root, "diff", "--name-only", "tinyvllm") == ""


def test_a_check_of_the_repository_leaves_no_file_in_it(worker):
    before = git(PROJECT.root, "status", "--porcelain", "chapters", "solutions", "tests/chapters")
    with Checker(PROJECT, worker) as checker:
        for chapter in CHAPTERS[:1]:
            cells = reference_cells(chapter)
            number = next(str(cell.exercise) for cell in cells if cell.exercise)
            assert checker.exercise(chapter, cells, number).passed
    after = git(PROJECT.root, "status", "--porcelain", "chapters", "solutions", "tests/chapters")
    assert after == before
