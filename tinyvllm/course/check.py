"""`%check 5.2`: the functions test_5_2_* against the student's cells, and words for the result.

The chapter's modules in the temporary package are made of the student's cells. Exercises other
than the checked one may be unfinished: one that isn't Python, or that fails when its module is
imported, is replaced by its stub, and an unfinished CUDA kernel is left out.
"""

import ast
import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinyvllm.course import notebooks, sandbox
from tinyvllm.course.cells import Cell
from tinyvllm.course.modules import join_parts, module_part, part_lines, student_note
from tinyvllm.course.project import Chapter, CourseError, Project
from tinyvllm.course.report import words_for
from tinyvllm.course.validate import is_python, plain_python, tested_exercises
from tinyvllm.course.worker import MEMORY_BYTES, Worker

CHECK_SECONDS = 60


@dataclass(frozen=True)
class Outcome:
    """How a check ended: `words` for the student; `started` is False for an untouched stub."""

    passed: bool
    words: str
    started: bool = True


class Checker:
    """Runs checks of a checkout's chapters in one warm process: its own, or a lent `worker`."""

    def __init__(self, project: Project, worker: Worker | None = None):
        self.project = project
        self._worker = worker
        self._lent = worker is not None
        self._copy: sandbox.PackageCopy | None = None

    def warm(self) -> None:
        """Start the process that runs checks, and don't wait for it."""
        if self._worker is None or not self._worker.alive():
            self._worker, self._lent = Worker(), False

    def close(self) -> None:
        if self._worker and not self._lent:
            self._worker.close()
        self._worker = None
        if self._copy:
            self._copy.close()
            self._copy = None

    def __enter__(self) -> "Checker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def exercise(self, chapter: Chapter, cells: Sequence[Cell], number: str) -> Outcome:
        """Check exercise `number` on the cells of a chapter that hold it exactly once."""
        cell = next(cell for cell in cells if cell.exercise == number)
        tests = tested_exercises(chapter.tests).get(number)
        if not tests:
            raise CourseError(f"{chapter.shown(chapter.tests)} has no test of exercise {number}")
        if cell.is_stub:
            line = "#error" if cell.is_cuda else "raise NotImplementedError"
            words = f"✗ exercise {number} is still to do: put your code where it says `{line}`"
            return Outcome(False, words, started=False)
        if problem := syntax_problem(cell):
            return Outcome(False, f"✗ exercise {number}: {problem}")
        plan = _Plan(chapter, cells, cell, _text_of(chapter.tests, tests))
        limit = cell.options.get("seconds", CHECK_SECONDS)
        while True:
            reply = self.run(chapter, cells, plan.modules(), tests, limit)
            failed = next((e for e in reply["events"] if "failed_import" in e), None)
            if failed is None or not plan.give_up(failed):
                break
        words = words_for(number, reply, plan.place)
        if words and plan.leave_in():  # perhaps it was right to need a kernel that was left out
            reply = self.run(chapter, cells, plan.modules(), tests, limit)
            words = words_for(number, reply, plan.place) and words
        return Outcome(not words, words or f"✓ exercise {number}")

    def whole_chapter(self, chapter: Chapter, cells: Sequence[Cell]) -> str:
        """Words for what fails when all tests of a chapter run on all its cells; '' if nothing."""
        plan = _Plan(chapter, cells, None, "")
        limit = CHECK_SECONDS + sum(c.options.get("seconds", CHECK_SECONDS)
                                    for c in cells if c.exercise)  # fmt: skip
        reply = self.run(chapter, cells, plan.modules(), [], limit)
        return words_for(f"tests of chapter {chapter.number}", reply, plan.place)

    def run(
        self,
        chapter: Chapter,
        cells: Sequence[Cell],
        modules: dict[str, str],
        tests: list[str],
        seconds: float,
        memory: int = MEMORY_BYTES,
    ) -> dict[str, Any]:
        """The worker's reply for `tests` (none: all) with `modules` in a temporary package."""
        self.warm()
        assert self._worker
        if self._copy is None:
            self._copy = sandbox.PackageCopy(self.project)
        self._copy.update(modules)
        with tempfile.TemporaryDirectory(prefix="tinyvllm-", ignore_cleanup_errors=True) as scratch:
            handed_over = Path(scratch) / "cells.json"
            handed_over.write_text(json.dumps([c.text for c in cells if c.kind == "code"]))
            return self._worker.ask(
                {
                    "package_root": str(self._copy.root),
                    "scratch": scratch,
                    "cells": str(handed_over),
                    "cwd": str(chapter.notebook.parent),
                    "test_file": str(chapter.tests),
                    "tests": tests,
                    "modules": [path for path in modules if path.endswith(".py")],
                    "seconds": seconds,
                    "memory": memory,
                }
            )


def syntax_problem(cell: Cell) -> str:
    """Why the cell is no Python, in words, or ''."""
    if not is_python(cell):
        return ""
    try:
        ast.parse(plain_python(cell.text))
    except SyntaxError as error:
        line = (error.text or "").strip()
        return f"{error.msg}, in line {error.lineno} of its cell: {line}"
    return ""


class _Plan:
    """Which text each cell puts into its module while one exercise is checked."""

    def __init__(self, chapter: Chapter, cells: Sequence[Cell], checked: Cell | None, tests: str):
        self._chapter = chapter
        self._cells = [cell for cell in cells if cell.promote]
        self._checked = checked
        self._parts = [module_part(cell) for cell in self._cells]
        self._given_up: dict[int, int] = {}
        self._left_out: list[int] = []
        if checked is None:
            return
        for i, cell in enumerate(self._cells):
            if self._is_other(cell) and syntax_problem(cell):
                self._replace(i)
        self._leave_out_kernels(tests)

    def modules(self) -> dict[str, str]:
        note = student_note(self._chapter)
        return {path: join_parts(path, self._of(path), note) for path in self._paths()}

    def place(self, path: str, line: int) -> str:
        """ "the cell of exercise 5.2, line 7" for a line of a module, if a cell put it there."""
        indices = [i for i, cell in enumerate(self._cells) if cell.promote == path]
        for i, (first, last) in zip(indices, part_lines(path, self._of(path))):
            if first <= line <= last:
                lines = self._cells[i].text.rstrip().count("\n") - (last - first)
                return f"{self._cells[i].label}, line {line - first + lines + 1}"
        return ""

    def give_up(self, failed: dict[str, Any]) -> bool:
        """Replace the unfinished cell that kept a module from being imported, if it is one."""
        for path, line, _ in reversed(failed["frames"]):
            for i, cell in enumerate(self._cells):
                place = f"{cell.label}, line"
                if self._is_other(cell) and self.place(path, line).startswith(place):
                    return self._replace(i)
        return False

    def leave_in(self) -> bool:
        """Put in the finished kernels that were left out; False if there are none."""
        finished = [i for i in self._left_out if not self._cells[i].is_stub]
        for i in finished:
            self._parts[i] = module_part(self._cells[i])
        self._left_out = []
        return bool(finished)

    def _paths(self) -> list[str]:
        return list(dict.fromkeys(cell.promote for cell in self._cells if cell.promote))

    def _of(self, path: str) -> list[str]:
        return [p for cell, p in zip(self._cells, self._parts) if cell.promote == path]

    def _is_other(self, cell: Cell) -> bool:
        return bool(cell.exercise) and self._checked is not None and cell is not self._checked

    def _replace(self, i: int) -> bool:
        """First by the stub of the exercise, then by nothing."""
        self._given_up[i] = self._given_up.get(i, 0) + 1
        stub = self._stub(self._cells[i]) if self._given_up[i] == 1 else ""
        self._parts[i] = stub
        return self._given_up[i] <= 2

    def _stub(self, cell: Cell) -> str:
        try:
            reference = notebooks.cells_of(notebooks.read(self._chapter.solution))
        except CourseError:
            return ""
        for own in reference:
            if own.exercise == cell.exercise:
                return module_part(own.stub())
        return ""

    def _leave_out_kernels(self, tests: str) -> None:
        """Leave out CUDA exercises that the checked one and its tests don't name.

        One that is still to do stays if the checked cell calls it: its `#error` says what to do.
        """
        checked = self._checked.text if self._checked else ""
        needed = {i for i, cell in enumerate(self._cells) if not self._is_other(cell)}
        text = f"{checked}\n{tests}"
        code = _without_comments(checked)
        grown = True
        while grown:
            grown = False
            for i, cell in enumerate(self._cells):
                if i in needed or not cell.is_cuda:
                    continue
                names = cuda_names(cell.text)
                if _names_any(names, code if cell.is_stub else text):
                    needed.add(i)
                    text += "\n" + cell.text
                    code += "\n" + _without_comments(cell.text)
                    grown = True
        for i, cell in enumerate(self._cells):
            if cell.is_cuda and i not in needed:
                self._parts[i] = ""
                self._left_out.append(i)


def _names_any(names: set[str], text: str) -> bool:
    return any(re.search(rf"\b{name}\b", text) for name in names)


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def cuda_names(text: str) -> set[str]:
    """Names of functions, macros and types that a CUDA cell defines (by their look)."""
    outer = _without_comments(text)
    names = set(re.findall(r"^\s*#\s*define\s+(\w+)", outer, re.MULTILINE))
    names |= set(re.findall(r"\b(?:struct|class|enum|using)\s+(\w+)", outer))
    names |= set(re.findall(r"\bconstexpr\s+[\w:]+\s+(\w+)", outer))
    functions = (
        r"(?:__global__|__device__|template|inline|static)[^;{}]*?\b(\w+)\s*\([^;{}]*\)\s*\{"
    )
    return names | set(re.findall(functions, outer))


def _text_of(test_file: Path, names: list[str]) -> str:
    source = test_file.read_text(encoding="utf-8")
    nodes = [n for n in ast.parse(source).body if getattr(n, "name", "") in names]
    return "\n".join(ast.get_source_segment(source, node) or "" for node in nodes)
