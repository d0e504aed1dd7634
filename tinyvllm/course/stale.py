"""`build --check`: is anything that build makes stale? It writes nothing.

It looks at the files that git tracks, as they are in the working tree, so a student's backups and
scratch notebooks don't matter. The quick form needs only `json`: the solution notebook stores the
hash of its source, and the rest follows from the solution notebook. `--full` makes everything
again from the source and compares. A student's code in the package and in chapters/ is right in a
student's checkout and an error where the environment says CI=true.
"""

import hashlib
import os
import subprocess
from collections.abc import Callable

from tinyvllm.course import derive, notebooks
from tinyvllm.course.modules import whose
from tinyvllm.course.project import Chapter, CourseError, Project
from tinyvllm.course.promote import reference_modules


def check_all(project: Project, *, full: bool = False, say: Callable[[str], None] = print) -> int:
    """Say everything that is stale; 0 if nothing is, or else 1."""
    ci = os.environ.get("CI", "").lower() in ("1", "true")
    tracked = tracked_files(project)
    problems: list[str] = []
    promoted: set[str] = set()
    for chapter in project.chapters():
        try:
            problems += _chapter_problems(project, chapter, tracked, ci, full)
            promoted |= reference_modules(chapter).keys()
        except CourseError as error:
            problems.append(str(error))
    for path in sorted(project.package.rglob("*")):
        name = path.relative_to(project.package).as_posix()
        known = f"tinyvllm/{name}" in tracked and path.suffix in (".py", ".cu", ".cuh")
        if known and name not in promoted and whose(path) != "project":
            problems.append(f"tinyvllm/{name} says that a chapter promotes it, and none does")
    for problem in problems:
        say(problem)
    if problems:
        say("`make build` makes generated files anew")
    return int(bool(problems))


def tracked_files(project: Project) -> set[str]:
    """Paths that git tracks; without git, all files that are there."""
    try:
        done = subprocess.run(
            ["git", "ls-files", "-z", "chapters", "solutions", "tinyvllm"],
            cwd=project.root,
            capture_output=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        folders = (project.root / name for name in ("chapters", "solutions", "tinyvllm"))
        files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
        return {path.relative_to(project.root).as_posix() for path in files}
    return set(filter(None, done.stdout.decode().split("\0")))


def _chapter_problems(
    project: Project, chapter: Chapter, tracked: set[str], ci: bool, full: bool
) -> list[str]:
    name = chapter.shown
    if name(chapter.source) not in tracked:
        return []  # somebody is still writing it
    missing = [name(p) for p in (chapter.solution, chapter.notebook) if name(p) not in tracked]
    missing += [
        f"tinyvllm/{path}"
        for path in reference_modules(chapter)
        if f"tinyvllm/{path}" not in tracked
    ]
    if missing:
        return [f"{path} is not in git, but its source {name(chapter.source)} is"
                for path in missing]  # fmt: skip
    problems = []
    solution = notebooks.read(chapter.solution)
    course = notebooks.course_metadata(solution)
    cells = notebooks.cells_of(solution)
    if course.get("source_sha256") != hashlib.sha256(chapter.source.read_bytes()).hexdigest():
        problems.append(f"{name(chapter.solution)} is older than {name(chapter.source)}")
    if course.get("content_sha256") != notebooks.content_sha256(cells):
        problems.append(f"{name(chapter.solution)} was edited: edit {name(chapter.source)}")
    if course.get("executed_sha256") != derive.code_sha256(cells):
        problems.append(f"{name(chapter.solution)} has not been run since its code changed")
    if full and not problems:
        problems += _differs_from_source(chapter, solution)
    student = notebooks.dumps(derive.student_notebook(chapter, cells, course))
    if chapter.notebook.read_text(encoding="utf-8") != student and (
        ci or not _is_students_work(chapter)
    ):
        problems.append(f"{name(chapter.notebook)} is not what build makes of the source")
    for path, text in reference_modules(chapter).items():
        module = project.package / path
        if whose(module) == "student":
            problems += [f"tinyvllm/{path} holds a student's code"] if ci else []
        elif not module.exists() or module.read_text(encoding="utf-8") != text:
            problems.append(f"tinyvllm/{path} is not what build makes of {name(chapter.source)}")
    return problems


def _is_students_work(chapter: Chapter) -> bool:
    """True if the notebook was edited or run by somebody: not a stale one from an older source."""
    from tinyvllm.course.build import is_edited

    if is_edited(chapter.notebook):
        return True
    cells = notebooks.read(chapter.notebook)["cells"]
    return any(cell.get("outputs") for cell in cells)


def _differs_from_source(chapter: Chapter, solution: dict) -> list[str]:
    """Make the solution notebook from its source again, and compare all but the outputs."""
    from tinyvllm.course.build import checked_content, solution_notebook
    from tinyvllm.course.execute import transplant

    fresh = solution_notebook(checked_content(chapter))
    fresh["metadata"]["tinyvllm"]["executed_sha256"] = derive.code_sha256(notebooks.cells_of(fresh))
    if notebooks.dumps(transplant(fresh, solution)) != notebooks.dumps(solution):
        return [f"{chapter.shown(chapter.solution)} is not what build makes of its source now"]
    return []
