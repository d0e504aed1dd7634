"""What can happen to a notebook: each gets a sentence, and the package stays as it is."""

import json
import shutil
from collections.abc import Callable

import pytest
from toy_course import cell_with, package_texts, solve, words

from tinyvllm.course import notebooks
from tinyvllm.course.check import Checker
from tinyvllm.course.cli import main
from tinyvllm.course.project import Chapter, Project
from tinyvllm.course.promote import NotPromoted, promote


def edited(chapter: Chapter, edit: Callable[[list], None]) -> None:
    """Change the cells of the student's notebook and save it."""
    notebook = notebooks.read(chapter.notebook)
    edit(notebook["cells"])
    chapter.notebook.write_text(json.dumps(notebook))


def cells_like(chapter: Chapter, line: str) -> dict:
    return cell_with(notebooks.read(chapter.notebook), line)


def truncated(chapter: Chapter) -> None:
    text = chapter.notebook.read_text()
    chapter.notebook.write_text(text[: len(text) // 2])


def renamed(chapter: Chapter) -> None:
    chapter.notebook.rename(chapter.notebook.with_name("mine.ipynb"))


def deleted_file(chapter: Chapter) -> None:
    chapter.notebook.unlink()


def foreign(chapter: Chapter) -> None:
    chapter.notebook.write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')


def of_another_chapter(chapter: Chapter) -> None:
    shutil.copy(chapter.notebook.with_name("08_next.ipynb"), chapter.notebook)


def old_format(chapter: Chapter) -> None:
    chapter.notebook.write_text('{"cells": [], "nbformat": 3}')


def not_text(chapter: Chapter) -> None:
    chapter.notebook.write_bytes(b"\xff\xfe\x00")


def a_list(chapter: Chapter) -> None:
    chapter.notebook.write_text("[1, 2]")


def a_cell_without_source(chapter: Chapter) -> None:
    edited(chapter, lambda cells: cells.append({"cell_type": "code"}))


def deleted_cell(chapter: Chapter) -> None:
    gone = cells_like(chapter, "#| exercise 7.2 points=3")
    edited(chapter, lambda cells: cells.remove(gone))


def doubled_cell(chapter: Chapter) -> None:
    again = cells_like(chapter, "#| exercise 7.2 points=3") | {"id": "copy"}
    edited(chapter, lambda cells: cells.append(again))


def lost_exercise_line(chapter: Chapter) -> None:
    replace_line(chapter, "#| exercise 7.2 points=3", "")


def lost_promote_line(chapter: Chapter) -> None:
    def edit(cells: list) -> None:
        cell = cell_with({"cells": cells}, "#| exercise 7.2 points=3")
        cell["source"] = "".join(cell["source"]).replace("#| promote toy/double.py\n", "")

    edited(chapter, edit)


def deleted_given_cell(chapter: Chapter) -> None:
    gone = cells_like(chapter, '"""Sizes of the toy chapter."""')
    edited(chapter, lambda cells: cells.remove(gone))


def unknown_directive(chapter: Chapter) -> None:
    replace_line(chapter, "#| exercise 7.2 points=3", "#| exercize 7.2")


def foreign_module(chapter: Chapter) -> None:
    extra = {"cell_type": "code", "metadata": {}, "source": "#| promote llm.py\nLLM = None"}
    edited(chapter, lambda cells: cells.append(extra))


def outside_the_package(chapter: Chapter) -> None:
    extra = {"cell_type": "code", "metadata": {}, "source": "#| promote ../evil.py\nx = 1"}
    edited(chapter, lambda cells: cells.append(extra))


def replace_line(chapter: Chapter, old: str, new: str) -> None:
    def edit(cells: list) -> None:
        cell = cell_with({"cells": cells}, old)
        cell["source"] = "".join(cell["source"]).replace(old, new)

    edited(chapter, edit)


FAULTS = {
    truncated: "is no whole notebook: its JSON breaks off",
    renamed: "chapters/mine.ipynb holds this chapter: rename it back",
    deleted_file: "chapters/07_toy.ipynb is missing",
    foreign: "holds no chapter of this course",
    of_another_chapter: "holds chapter 8, not chapter 7",
    old_format: "has notebook format 3",
    not_text: "isn't UTF-8 text",
    a_list: "is JSON, but no notebook",
    a_cell_without_source: "of its cells is no cell",
    deleted_cell: "exercise 7.2 is not in the notebook",
    doubled_cell: "2 cells say `#| exercise 7.2`",
    lost_exercise_line: "exercise 7.2 is not in the notebook",
    lost_promote_line: "has lost its line `#| promote toy/double.py`",
    deleted_given_cell: "belongs to toy/sizes.py and is gone",
    unknown_directive: "there is no directive `#| exercize`",
    foreign_module: "`#| promote llm.py`, which is no module of chapter 7",
    outside_the_package: "a module has a path such as ops/rope.py",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_promotion_is_refused_with_a_sentence(
    toy: Project, checker: Checker, fault: Callable[[Chapter], None]
):
    chapter = toy.chapter(7)
    solve(chapter)
    fault(chapter)
    before = package_texts(toy)
    with pytest.raises(NotPromoted) as caught:
        promote(toy, chapter, checker)
    assert FAULTS[fault] in words(caught.value)
    assert package_texts(toy) == before


@pytest.mark.parametrize("fault", [truncated, renamed, foreign, of_another_chapter])
def test_status_goes_on_with_a_sentence(
    toy: Project, fault: Callable[[Chapter], None], capsys: pytest.CaptureFixture[str]
):
    fault(toy.chapter(7))
    assert main(["status"], toy) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert FAULTS[fault] in first and "0 of 1 exercises done" in second


@pytest.mark.parametrize("fault", [truncated, foreign, deleted_file])
def test_reset_with_notebook_brings_a_whole_one_back(
    toy: Project, fault: Callable[[Chapter], None]
):
    chapter = toy.chapter(7)
    original = chapter.notebook.read_text()
    fault(chapter)
    assert main(["reset", "7", "--notebook"], toy) == 0
    assert chapter.notebook.read_text() == original


def test_reset_keeps_the_students_notebook_beside_it(toy: Project):
    chapter = toy.chapter(7)
    solve(chapter)
    mine = chapter.notebook.read_text()
    assert main(["reset", "07", "--notebook"], toy) == 0
    (kept,) = chapter.notebook.parent.glob("07_toy.backup-*.ipynb")
    assert kept.read_text() == mine
