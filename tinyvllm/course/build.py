"""`build`: from solutions/NN_name.md to both notebooks and the promoted modules.

Everything written is a function of the source, except the outputs of solutions/NN_name.ipynb,
which stay until code of the chapter changes. A chapter notebook that somebody has edited and a
module that holds a student's code are never overwritten.
"""

import hashlib
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tinyvllm.course import derive, notebooks, sandbox
from tinyvllm.course.modules import module_texts, reference_note, whose
from tinyvllm.course.project import Chapter, CourseError, Project
from tinyvllm.course.source import Content, SourceError, parse
from tinyvllm.course.validate import problems_of, test_problems_of


def build(
    project: Project,
    chapters: list[Chapter],
    *,
    draft: bool = False,
    execute: bool = False,
    say: Callable[[str], None] = print,
) -> int:
    """Build `chapters`; 0, or 1 if one of them could not be built.

    `draft` runs nothing and accepts missing tests; `execute` runs a chapter even if its code is
    what the stored outputs came from.
    """
    failed = 0
    for chapter in chapters:
        try:
            _build_one(project, chapter, draft, execute, say)
        except CourseError as error:
            say(str(error))
            failed = 1
    return failed


def solution_notebook(content: Content) -> dict[str, Any]:
    """solutions/NN_name.ipynb without outputs."""
    cells = list(content.cells)
    source = content.chapter.source.read_bytes()
    course = {
        "chapter": content.chapter.number,
        "title": content.title,
        "minutes": content.minutes,
        "source_sha256": hashlib.sha256(source).hexdigest(),
        "code_sha256": derive.code_sha256(cells),
        "content_sha256": notebooks.content_sha256(cells),
    }
    if content.needs:
        course["needs"] = content.needs
    ids = derive.identities(content.chapter.number, cells)
    return derive.notebook(content.chapter, cells, course, ids)


def checked_content(chapter: Chapter, *, draft: bool = False) -> Content:
    """The content of a chapter's source, or SourceError with all that is wrong with it."""
    content = parse(chapter)
    problems = problems_of(content)
    if not draft:
        problems += test_problems_of(content)
    if problems:
        raise SourceError(chapter, problems)
    return content


def is_edited(notebook: Path) -> bool:
    """True if the chapter notebook holds somebody's work: not what build wrote into it."""
    if not notebook.exists():
        return False
    try:
        on_disk = notebooks.read(notebook)
    except notebooks.NotebookError:
        return True
    stored = notebooks.course_metadata(on_disk).get("content_sha256")
    return notebooks.content_sha256(notebooks.cells_of(on_disk)) != stored


def _build_one(
    project: Project, chapter: Chapter, draft: bool, execute: bool, say: Callable[[str], None]
) -> None:
    content = checked_content(chapter, draft=draft)
    modules = module_texts(content.cells, reference_note(chapter))
    _refuse_foreign_modules(project, chapter, modules)
    refuse_what_ruff_would(project, modules)
    solution = solution_notebook(content)
    student = derive.student_notebook(chapter, content.cells, solution["metadata"]["tinyvllm"])
    solution = _with_outputs(project, chapter, solution, student, modules, draft, execute, say)

    for path, text in modules.items():
        _write(chapter, project.package / path, text, say)
    _write(chapter, chapter.solution, notebooks.dumps(solution), say)
    if is_edited(chapter.notebook):
        raise CourseError(
            f"{chapter.shown(chapter.notebook)} is not written: it holds somebody's work."
            f" `make reset-chapter {chapter.number} ARGS=--notebook` keeps a copy and starts afresh"
        )
    _write(chapter, chapter.notebook, notebooks.dumps(student), say)


def _with_outputs(
    project: Project,
    chapter: Chapter,
    solution: dict[str, Any],
    student: dict[str, Any],
    modules: dict[str, str],
    draft: bool,
    execute: bool,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """`solution` with the stored outputs if its code is unchanged, or else with new ones."""
    from tinyvllm.course.execute import executed, transplant

    code = solution["metadata"]["tinyvllm"]["code_sha256"]
    if chapter.solution.exists() and not execute:
        try:
            old = notebooks.read(chapter.solution)
        except notebooks.NotebookError as error:
            say(f"{error}: it is made anew")
        else:
            kept = derive.code_sha256(notebooks.cells_of(old)) == code
            ran = notebooks.course_metadata(old).get("executed_sha256")
            if kept and ran == code:
                solution["metadata"]["tinyvllm"]["executed_sha256"] = code
                return transplant(solution, old)
    if draft:
        return solution
    say(f"{chapter.name}: running it")
    solution["metadata"]["tinyvllm"]["executed_sha256"] = code
    return executed(project, chapter, solution, student, modules)


def _refuse_foreign_modules(project: Project, chapter: Chapter, modules: dict[str, str]) -> None:
    """Never write over a student's module, or over one that another chapter promotes."""
    for path, text in modules.items():
        module = project.package / path
        if whose(module) == "student":
            raise CourseError(
                f"tinyvllm/{path} is not written: it holds a student's code. Back to the"
                f" reference: make reset-chapter {chapter.number}"
            )
        if whose(module) == "reference":
            first = module.read_text(encoding="utf-8").split("\n", 1)[0]
            if first != text.split("\n", 1)[0]:
                raise CourseError(
                    f"tinyvllm/{path} belongs to another chapter. Its first line says:\n  {first}"
                )


def refuse_what_ruff_would(project: Project, modules: dict[str, str]) -> None:
    """Refuse Python modules that ruff would change or complain about."""
    if importlib.util.find_spec("ruff") is None:
        raise CourseError("build needs ruff: pip install -e '.[test]'")
    for path, text in modules.items():
        if not path.endswith(".py"):
            continue
        name = ["--no-cache", "--stdin-filename", str(project.package / path), "-"]
        for command in (["check", "--quiet"], ["format", "--diff"]):
            done = subprocess.run(
                [sys.executable, "-m", "ruff", *command, *name],
                input=text,
                capture_output=True,
                text=True,
                cwd=project.root,
            )
            if done.returncode:
                raise CourseError(
                    f"tinyvllm/{path} would not pass `ruff {command[0]}`:\n"
                    + (done.stdout + done.stderr).strip()
                )


def _write(chapter: Chapter, path: Path, text: str, say: Callable[[str], None]) -> None:
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    sandbox.write_module(path, text)
    say(f"{chapter.shown(path)}: written")
