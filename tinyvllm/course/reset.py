"""`reset 5`: the reference back in the package; with `--notebook` the chapter's notebook too."""

import datetime
import os
from collections.abc import Callable

from tinyvllm.course import derive, journal, notebooks
from tinyvllm.course.build import is_edited
from tinyvllm.course.project import Chapter, Project
from tinyvllm.course.promote import reference_cells, reference_modules


def reset(
    project: Project,
    chapter: Chapter,
    *,
    notebook: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Put the reference's modules back; the student's code stays in the notebook.

    With `notebook` the original notebook comes back as well, and the student's is kept beside it
    under a name with the time.
    """
    journal.recover(project)
    modules = reference_modules(chapter)
    journal.replace_modules(project, modules)
    for path in modules:
        say(f"tinyvllm/{path} holds the reference")
    if notebook:
        _reset_notebook(chapter, say)


def _reset_notebook(chapter: Chapter, say: Callable[[str], None]) -> None:
    course = notebooks.course_metadata(notebooks.read(chapter.solution))
    original = derive.student_notebook(chapter, reference_cells(chapter), course)
    if is_edited(chapter.notebook):
        time = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        kept = chapter.notebook.with_name(f"{chapter.name}.backup-{time}.ipynb")
        number = 1
        while kept.exists():
            number += 1
            kept = kept.with_name(f"{chapter.name}.backup-{time}-{number}.ipynb")
        os.rename(chapter.notebook, kept)
        say(f"your notebook is kept as {chapter.shown(kept)}")
    chapter.notebook.parent.mkdir(exist_ok=True)
    temporary = chapter.notebook.with_name(f".{chapter.name}.tmp")
    temporary.write_text(notebooks.dumps(original), encoding="utf-8", newline="\n")
    os.replace(temporary, chapter.notebook)
    say(f"{chapter.shown(chapter.notebook)} is the original again (reload it if it is open)")
