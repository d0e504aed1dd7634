"""Which cells the fixture `exercises` of tests/chapters/conftest.py stands for.

In a check they are the student's, handed over in the file that TINYVLLM_CELLS names; otherwise
(`pytest tests/chapters`) they are the reference's, from solutions/NN_name.ipynb.
"""

import json
import os
from pathlib import Path

from tinyvllm.course import notebooks
from tinyvllm.course.cells import Cell
from tinyvllm.course.namespace import Exercises
from tinyvllm.course.project import CourseError


def exercises_for(test_file: Path) -> Exercises:
    """The namespace for the tests in `tests/chapters/test_NN_name.py`."""
    if handed_over := os.environ.get("TINYVLLM_CELLS"):
        texts = json.loads(Path(handed_over).read_text(encoding="utf-8"))
        return Exercises([Cell("code", text) for text in texts])
    name = test_file.stem.removeprefix("test_")
    solution = test_file.parents[2] / "solutions" / f"{name}.ipynb"
    if not solution.exists():
        raise CourseError(f"solutions/{name}.ipynb is missing: run `make build`")
    return Exercises(notebooks.cells_of(notebooks.read(solution)))
