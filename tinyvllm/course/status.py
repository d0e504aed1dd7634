"""`status`: one line a chapter: what is done, and whose code the package holds.

Nothing runs: an exercise counts as done if its cell's text, as saved, has passed its check.
"""

from collections.abc import Callable

from tinyvllm.course import notebooks
from tinyvllm.course.collect import collect
from tinyvllm.course.modules import whose
from tinyvllm.course.project import Chapter, CourseError, Project
from tinyvllm.course.promote import reference_cells
from tinyvllm.course.results import passed


def status(project: Project, say: Callable[[str], None] = print) -> None:
    """Print the table."""
    chapters = project.chapters()
    if not chapters:
        say("there are no chapters")
    for chapter in chapters:
        say(line(project, chapter))


def line(project: Project, chapter: Chapter) -> str:
    """The chapter's line, such as "01 safetensors  3 of 5 done, 1 begun  your code"."""
    name = chapter.name.replace("_", " ", 1)
    try:
        solution = reference_cells(chapter)
    except notebooks.NotebookError:
        return f"{name:28} not built yet"
    total = sum(1 for cell in solution if cell.exercise)
    try:
        cells = collect(chapter, chapter.notebook).cells
        results = [passed(project, c) for c in cells if c.exercise and not c.is_stub]
    except CourseError as error:
        return f"{name:28} {error}"
    done = results.count(True)
    words = f"{done} of {total} exercises done"
    if len(results) > done:
        words += f", {len(results) - done} begun"
    return f"{name:28} {words:34} {_whose_code(project, solution)}".rstrip()


def _whose_code(project: Project, solution: list) -> str:
    paths = dict.fromkeys(cell.promote for cell in solution if cell.promote)
    students = [path for path in paths if whose(project.package / path) == "student"]
    if not paths:
        return "promotes nothing"
    return "the package runs your code" if students else "the package runs the reference"
