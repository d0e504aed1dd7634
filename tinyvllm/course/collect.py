"""A student's cells of a chapter: as they last ran in this kernel, or else as saved.

"What you ran is what counts": a cell that was typed and run but not saved is taken as it ran. What
was edited after its last run, or failed in it, is known as such. Everything else that can have
happened to a notebook (cut off, renamed, of another chapter, cells deleted or doubled) is a
sentence here, and nothing is guessed.
"""

import itertools
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tinyvllm.course import notebooks
from tinyvllm.course.cells import Cell, exercise_key
from tinyvllm.course.project import Chapter, CourseError


@dataclass(frozen=True)
class Run:
    """The last run of one cell: its text, when it began, and the error that it raised, if any."""

    text: str
    started: float
    error: str = ""


@dataclass
class Runs:
    """The runs of one kernel, by the notebook's id of the cell and by exercise."""

    by_id: dict[str, Run] = field(default_factory=dict)
    by_exercise: dict[str, tuple[str | None, Run]] = field(default_factory=dict)

    def record(self, text: str, identity: str | None, error: str, started: float) -> None:
        run = Run(text, started, error)
        if identity:
            self.by_id[identity] = run
        try:
            exercise = Cell("code", text).exercise
        except CourseError:
            exercise = None
        if exercise:
            self.by_exercise[exercise] = (identity, run)


@dataclass(frozen=True)
class Collected:
    """The cells of a chapter in the order of the file, and what is known of their runs."""

    cells: tuple[Cell, ...]
    failed: dict[str, str]  # label of a cell whose last run failed -> the error
    edited: tuple[str, ...]  # labels of cells that were edited after their last run
    as_run: int  # promoted and exercise cells taken as they ran
    as_saved: int


def collect(chapter: Chapter, notebook: Path, runs: Runs | None = None) -> Collected:
    """The student's code cells of `chapter` in `notebook`, checked for what all commands need."""
    if notebook == chapter.notebook and not notebook.exists():
        raise CourseError(_missing(chapter))
    content = notebooks.read(notebook)
    number = notebooks.course_metadata(content).get("chapter")
    if number != chapter.number:
        what = f"chapter {number}" if isinstance(number, int) else "no chapter of this course"
        raise CourseError(
            f"{chapter.shown(notebook)} holds {what}, not chapter {chapter.number}."
            f" {_start_afresh(chapter)}"
        )
    runs = runs or Runs()
    saved = notebook.stat().st_mtime
    found = [_resolve(cell, runs, saved) for cell in notebooks.cells_of(content)]
    _refuse_unsaved(found, runs)
    ours = [state for state in found if state.counts]
    return Collected(
        tuple(state.cell for state in found if state.cell.kind == "code"),
        {state.cell.label: state.error for state in ours if state.error},
        tuple(state.cell.label for state in ours if state.edited),
        sum(state.ran for state in ours),
        sum(not state.ran for state in ours),
    )


@dataclass(frozen=True)
class _State:
    cell: Cell
    ran: bool = False
    error: str = ""
    edited: bool = False

    @property
    def counts(self) -> bool:
        return bool(self.cell.promote or self.cell.exercise)


def _resolve(cell: Cell, runs: Runs, saved: float) -> _State:
    if cell.kind != "code":
        return _State(cell)
    run = runs.by_id.get(cell.id) if cell.id else None
    if run is None and cell.exercise in runs.by_exercise:
        run = runs.by_exercise[cell.exercise][1]
    if run is None:
        return _State(cell)
    edited = cell.text.rstrip() != run.text.rstrip() and saved > run.started
    text = cell.text if edited else run.text
    return _State(replace(cell, text=text), True, run.error, edited)


def _refuse_unsaved(found: list[_State], runs: Runs) -> None:
    """Two cells that ran as one exercise, or a promoted cell that the file doesn't know."""
    known = {state.cell.id for state in found}
    exercises = {state.cell.exercise for state in found if state.cell.exercise}
    for exercise, (identity, _) in runs.by_exercise.items():
        other = any(s.cell.exercise == exercise and s.cell.id in runs.by_id for s in found)
        if identity and identity not in known and exercise in exercises and other:
            raise CourseError(
                f"two cells ran as exercise {exercise}, and the saved notebook knows only one of"
                " them: keep one, save the notebook and run it again"
            )
    for identity, run in runs.by_id.items():
        try:
            promoted = Cell("code", run.text).promote
        except CourseError:
            continue
        if promoted and identity not in known:
            raise CourseError(
                f"a cell of {promoted} ran that the saved notebook doesn't have: save the"
                " notebook, and run the cell again"
            )


def problems_of(cells: Iterable[Cell], reference: Iterable[Cell], chapter: Chapter) -> list[str]:
    """What was deleted, doubled or moved to another module, compared with the chapter's own cells.

    `reference` are the cells of solutions/NN_name.ipynb.
    """
    cells, reference = list(cells), list(reference)
    wanted = {cell.exercise: cell.promote for cell in reference if cell.exercise}
    problems = exercise_problems(cells, sorted(wanted, key=exercise_key), chapter)
    modules = {cell.promote for cell in reference if cell.promote}
    for cell in cells:
        if cell.promote and cell.promote not in modules:
            problems.append(f"{cell.label} says `#| promote {cell.promote}`, which is no module"
                            f" of chapter {chapter.number}")  # fmt: skip
        elif cell.exercise in wanted and cell.promote != wanted[cell.exercise]:
            line = f"#| promote {wanted[cell.exercise]}"
            problems.append(f"{cell.label} has lost its line `{line}`, or has one too many")
    if not problems:
        problems += _lost_given_cells(cells, reference, chapter)
    return problems


def exercise_problems(cells: Iterable[Cell], wanted: Iterable[str], chapter: Chapter) -> list[str]:
    """Exercises of `wanted` that stand in no cell, or in two."""
    have = [cell.exercise for cell in cells if cell.exercise]
    problems = []
    for number in wanted:
        if number not in have:
            problems.append(
                f"exercise {number} is not in the notebook: its cell, or the line"
                f" `#| exercise {number}` at its top, is gone. {_start_afresh(chapter)}"
            )
        elif have.count(number) > 1:
            problems.append(
                f"{have.count(number)} cells say `#| exercise {number}`: keep one of them, delete"
                " the line in the others, and save"
            )
    return problems


def _lost_given_cells(cells: list[Cell], reference: list[Cell], chapter: Chapter) -> list[str]:
    """Given cells of a module that are there no more: neither their id nor their text."""
    ids = {cell.id for cell in cells}
    texts = {cell.text.strip() for cell in cells}
    lost = [
        cell
        for cell in reference
        if cell.promote and not cell.exercise
        and cell.id not in ids and cell.text.strip() not in texts
    ]  # fmt: skip
    lost += [
        cell
        for cell, own in itertools.product(reference, cells)
        if cell.promote and not cell.exercise and cell.id == own.id and not own.promote
    ]
    return [
        f"{cell.label} belongs to {cell.promote} and is gone, or has lost its line"
        f" `#| promote {cell.promote}`. {_start_afresh(chapter)}"
        for cell in lost
    ]


def _missing(chapter: Chapter) -> str:
    words = f"{chapter.shown(chapter.notebook)} is missing"
    for path in sorted(chapter.notebook.parent.glob("*.ipynb")):
        try:
            number = notebooks.course_metadata(notebooks.read(path)).get("chapter")
        except notebooks.NotebookError:
            continue
        if number == chapter.number and path.stem.find(".backup-") < 0:
            return f"{words}; {chapter.shown(path)} holds this chapter: rename it back"
    return f"{words}. {_start_afresh(chapter)}"


def _start_afresh(chapter: Chapter) -> str:
    return (
        f"`make reset-chapter {chapter.number} ARGS=--notebook` keeps a copy of the notebook and"
        " brings back the original"
    )


def now() -> float:
    """The clock that file times are compared with."""
    return time.time()
