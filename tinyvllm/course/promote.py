"""`%promote 5`: a student's cells become the modules of the package, if they pass the tests."""

from collections.abc import Callable
from pathlib import Path

from tinyvllm.course import journal, notebooks
from tinyvllm.course.cells import Cell, exercise_key
from tinyvllm.course.check import Checker, syntax_problem
from tinyvllm.course.collect import Collected, Runs, collect, problems_of
from tinyvllm.course.modules import module_texts, reference_note, student_note
from tinyvllm.course.project import Chapter, CourseError, Project


class NotPromoted(CourseError):
    """A promotion that was refused; the package is as it was."""

    def __init__(self, chapter: Chapter, reasons: list[str]):
        lines = "\n".join(f"  {line}" for reason in reasons for line in reason.splitlines())
        super().__init__(f"chapter {chapter.number} is not promoted; the package is unchanged:"
                         f"\n{lines}")  # fmt: skip


def promote(
    project: Project,
    chapter: Chapter,
    checker: Checker,
    *,
    notebook: Path | None = None,
    runs: Runs | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Replace the modules of `chapter` by the student's cells, or raise NotPromoted.

    `runs` are the cells as they ran in this kernel; without them the saved notebook counts.
    """
    journal.recover(project)
    notebook = notebook or chapter.notebook
    if notebook == chapter.solution:
        raise NotPromoted(chapter, ["this is the solution's notebook: `make build` promotes it"])
    try:
        collected = collect(chapter, notebook, runs)
        reasons = reasons_against(chapter, collected)
    except CourseError as error:
        raise NotPromoted(chapter, [str(error)]) from None
    if reasons:
        raise NotPromoted(chapter, reasons)
    modules = module_texts(collected.cells, student_note(chapter))
    if not modules:
        say(f"chapter {chapter.number} promotes nothing: its code stays in the notebook")
        return
    if words := checker.whole_chapter(chapter, collected.cells):
        raise NotPromoted(chapter, [words])
    journal.replace_modules(project, modules)
    for path in modules:
        say(f"tinyvllm/{path} now holds your code")
    counts = f"{collected.as_run} cells as they ran, {collected.as_saved} as saved"
    say(f"({counts}; compare with `git diff tinyvllm`, back: make reset-chapter {chapter.number})")


def reasons_against(chapter: Chapter, collected: Collected) -> list[str]:
    """Why these cells can't be promoted, before any test runs; in words."""
    cells = collected.cells
    reasons = [f"{label} failed when it last ran: {error}"
               for label, error in collected.failed.items()
               if "NotImplementedError: exercise" not in error]  # fmt: skip
    reasons += [f"{label} was edited after it last ran: run it again" for label in collected.edited]
    reasons += problems_of(cells, reference_cells(chapter), chapter)
    todo = sorted({cell.exercise for cell in cells if cell.exercise and cell.is_stub},
                  key=exercise_key)  # fmt: skip
    if todo:
        reasons.append(f"still to do: {', '.join(f'exercise {number}' for number in todo)}")
    reasons += [
        f"{cell.label}: {problem}"
        for cell in cells
        if cell.promote and (problem := syntax_problem(cell))
    ]
    return reasons


def reference_cells(chapter: Chapter) -> list[Cell]:
    """The cells of the chapter's solution."""
    return notebooks.cells_of(notebooks.read(chapter.solution))


def reference_modules(chapter: Chapter) -> dict[str, str]:
    """The chapter's modules as build writes them, from its solution notebook."""
    return module_texts(reference_cells(chapter), reference_note(chapter))
