"""`test 5`: every check of a chapter, and then its whole notebook, run from top to bottom.

What `make test-chapter 5` and CI (with the reference) run.
"""

import importlib.util
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from tinyvllm.course import journal, sandbox
from tinyvllm.course.cells import Cell, exercise_key
from tinyvllm.course.check import Checker
from tinyvllm.course.collect import collect, exercise_problems, problems_of
from tinyvllm.course.modules import module_texts, student_note
from tinyvllm.course.project import Chapter, CourseError, Project
from tinyvllm.course.promote import reference_cells
from tinyvllm.course.results import remember

_SHOWN_LINES = 60  # of what nbval says


def run_chapter(
    project: Project,
    chapter: Chapter,
    checker: Checker,
    *,
    reference: bool = False,
    say: Callable[[str], None] = print,
) -> bool:
    """Test a chapter and say what was found; True if everything is done and right."""
    journal.recover(project)
    notebook = chapter.solution if reference else chapter.notebook
    cells = collect(chapter, notebook).cells
    solution = reference_cells(chapter)
    points = {cell.exercise: cell.options["points"] for cell in solution if cell.exercise}
    done = []
    for number in sorted(filter(None, points), key=exercise_key):
        if problems := exercise_problems(cells, [number], chapter):
            say("✗ " + "\n".join(problems))
            continue
        outcome = checker.exercise(chapter, cells, number)
        say(outcome.words)
        if outcome.passed:
            done.append(number)
        if not reference:
            remember(project, next(c for c in cells if c.exercise == number), outcome.passed)
    earned, possible = sum(points[number] for number in done), sum(points.values())
    say(f"{len(done)} of {len(points)} exercises done ({earned} of {possible} points)")
    if len(done) < len(points):
        return False
    if problems := problems_of(cells, solution, chapter):
        say("\n".join(f"✗ {problem}" for problem in problems))
        return False
    if words := checker.whole_chapter(chapter, cells) or notebook_words(
        project, chapter, cells, notebook, reference
    ):
        say(words)
        return False
    say(f"✓ {chapter.shown(notebook)} runs from top to bottom")
    return True


def notebook_words(
    project: Project, chapter: Chapter, cells: Sequence[Cell], notebook: Path, reference: bool
) -> str:
    """Run the notebook under nbval in a temporary checkout; words for what failed, or ''."""
    if importlib.util.find_spec("nbval") is None:
        raise CourseError("running the notebook needs nbval: pip install -e '.[test]'")
    modules = module_texts(cells, student_note(chapter))
    sanitizer = project.root / "tests" / "nbval_sanitize.cfg"
    arguments = ["-m", "pytest", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider"]
    arguments += ["--nbval" if reference else "--nbval-lax", "--nbval-current-env"]
    arguments += ["--nbval-cell-timeout=600"]
    if sanitizer.exists():
        arguments += ["--nbval-sanitize-with", str(sanitizer)]
    with sandbox.checkout(project, chapter, modules, {}) as copy:
        where = notebook.relative_to(project.root)
        done = sandbox.run_python([*arguments, where.as_posix()], copy.root, gpu=not reference)
        if done.returncode == 0:
            return ""
        text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).strip().replace(f"{copy.root}/", "")
    lines = text.splitlines()[-_SHOWN_LINES:]
    return f"✗ {chapter.shown(notebook)} does not run from top to bottom:\n" + "\n".join(
        f"  {line}" for line in lines
    )
