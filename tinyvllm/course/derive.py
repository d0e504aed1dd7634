"""From a chapter's content to its two notebooks: pure functions, the same bytes every time.

The ids of cells come from what they are (`ch05-ex-5-2`) or from a hash of their text, so that a
new cell changes its own lines of the file and no others. Exercise and check cells carry the
metadata of nbgrader (https://nbgrader.readthedocs.io), which an instructor may use and this course
doesn't need.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tinyvllm.course import notebooks
from tinyvllm.course.cells import Cell
from tinyvllm.course.project import Chapter

_CHECK = re.compile(r"^%check\s+(\S+)\s*$", re.MULTILINE)
_PROMOTE = re.compile(r"^%promote\b", re.MULTILINE)


def checked_exercise(cell: Cell) -> str | None:
    """The number in `%check 5.2` if the cell is a check cell."""
    match = _CHECK.search(cell.text) if cell.kind == "code" else None
    return match[1] if match else None


def is_promotion(cell: Cell) -> bool:
    """True for the cell that holds `%promote N`."""
    return cell.kind == "code" and bool(_PROMOTE.search(cell.text))


def identities(number: int, cells: Iterable[Cell]) -> list[str]:
    """One id a cell, unique in the notebook, 1-64 letters, digits, - and _."""
    taken: dict[str, int] = {}
    ids = []
    for cell in cells:
        if cell.exercise:
            what = f"ex-{cell.exercise}"
        elif exercise := checked_exercise(cell):
            what = f"check-{exercise}"
        elif is_promotion(cell):
            what = "promote"
        else:
            what = hashlib.sha256(f"{cell.kind}\n{cell.text}".encode()).hexdigest()[:8]
        identity = f"ch{number:02}-{what}".replace(".", "-")
        taken[identity] = taken.get(identity, 0) + 1
        ids.append(identity if taken[identity] == 1 else f"{identity}-{taken[identity]}")
    return ids


def stub_cells(cells: Iterable[Cell]) -> list[Cell]:
    """The student's version of all cells."""
    return [cell.stub() if cell.exercise else cell for cell in cells]


def code_sha256(cells: Iterable[Cell]) -> str:
    """A hash of what is executed: while it stays, stored outputs stay."""
    texts = [
        [cell.text, "nbval-skip" in cell.tags or is_promotion(cell)]
        for cell in cells
        if cell.kind == "code"
    ]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def notebook(
    chapter: Chapter, cells: list[Cell], course: dict[str, Any], ids: list[str]
) -> dict[str, Any]:
    """A notebook without outputs; `course` is its metadata `tinyvllm`."""
    points = {cell.exercise: cell.options["points"] for cell in cells if cell.exercise}
    written = []
    for cell, identity in zip(cells, ids):
        if cell.kind != "code":
            written.append(notebooks.text_cell(cell, identity))
            continue
        tags = set(cell.tags) | ({"nbval-skip"} if is_promotion(cell) else set())
        metadata: dict[str, Any] = {"tags": sorted(tags)} if tags else {}
        if grading := _nbgrader(cell, points):
            metadata["nbgrader"] = grading
        written.append(notebooks.code_cell(cell, identity, metadata))
    return {
        "cells": written,
        "metadata": {
            "kernelspec": {
                "display_name": "Python 3 (ipykernel)",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python"},
            "tinyvllm": course,
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def student_notebook(
    chapter: Chapter, cells: Iterable[Cell], course: dict[str, Any]
) -> dict[str, Any]:
    """chapters/NN_name.ipynb from the cells and the metadata of the solution's notebook."""
    cells = list(cells)
    stubs = stub_cells(cells)
    about = {key: course[key] for key in ("title", "minutes", "needs") if course.get(key)}
    about |= {"chapter": chapter.number, "content_sha256": notebooks.content_sha256(stubs)}
    return notebook(chapter, stubs, about, identities(chapter.number, cells))


def without_ids(cells: Iterable[Cell]) -> list[Cell]:
    """The cells as the source has them, for comparing."""
    return [replace(cell, id=None) for cell in cells]


def _nbgrader(cell: Cell, points: dict[str, int]) -> dict[str, Any]:
    common = {"schema_version": 3, "task": False}
    if cell.exercise:
        name = f"ex-{cell.exercise}".replace(".", "-")
        return common | {"grade_id": name, "solution": True, "grade": False, "locked": False}
    if (exercise := checked_exercise(cell)) in points and exercise:
        name = f"check-{exercise}".replace(".", "-")
        return common | {
            "grade_id": name,
            "solution": False,
            "grade": True,
            "locked": True,
            "points": points[exercise],
        }
    return {}
