"""`table`: the chapters as a Markdown table for README.md, derived so that it can't be wrong."""

from tinyvllm.course import notebooks
from tinyvllm.course.mutants import mutants_of
from tinyvllm.course.project import Chapter, Project
from tinyvllm.course.promote import reference_cells

_HEAD = """| N | chapter | minutes | exercises | points | wrong answers | promotes |
|---|---|---|---|---|---|---|"""


def table(project: Project) -> str:
    """One row a built chapter, with links to its notebooks and to the modules that it owns."""
    chapters = [chapter for chapter in project.chapters() if chapter.solution.exists()]
    return "\n".join([_HEAD, *(_row(chapter) for chapter in chapters)])


def _row(chapter: Chapter) -> str:
    course = notebooks.course_metadata(notebooks.read(chapter.solution))
    cells = reference_cells(chapter)
    exercises = [cell for cell in cells if cell.exercise]
    modules = dict.fromkeys(cell.promote for cell in cells if cell.promote)
    columns = [
        f"{chapter.number:02}",
        f"[{course['title']}]({chapter.shown(chapter.solution)})",
        str(course["minutes"]),
        str(len(exercises)),
        str(sum(cell.options["points"] for cell in exercises)),
        str(len(mutants_of(chapter))),
        ", ".join(f"[{path}](tinyvllm/{path})" for path in modules) or "nothing",
    ]
    return f"| {' | '.join(columns)} |"
