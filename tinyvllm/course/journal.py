"""Replacing several modules at once: all of them or none, whenever the process is killed.

The new texts are first written to one journal file. From the moment at which that file has its
name, they are the truth: whoever comes next (any command of the course, or `import tinyvllm` in a
checkout) finishes the replacement. Before that moment nothing has changed.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from tinyvllm.course.project import Project
from tinyvllm.course.sandbox import forget_compiled


def replace_modules(project: Project, modules: dict[str, str]) -> None:
    """Write `modules` (path in the package -> text), all or none."""
    project.state.mkdir(exist_ok=True)
    with _locked(project):
        _roll_forward(project)
        _write_through(_journal(project), json.dumps(modules))
        _roll_forward(project)


def recover(project: Project) -> None:
    """Finish a replacement that was interrupted; costs one look at the disk if there is none."""
    if _journal(project).exists():
        with _locked(project):
            _roll_forward(project)


def recover_here() -> None:
    """`recover` for the checkout that is being imported from."""
    recover(Project.here())


def _journal(project: Project) -> Path:
    return project.state / "promotion.json"


def _roll_forward(project: Project) -> None:
    journal = _journal(project)
    if not journal.exists():
        return
    for path, text in json.loads(journal.read_text(encoding="utf-8")).items():
        module = project.package / path
        module.parent.mkdir(parents=True, exist_ok=True)
        _write_through(module, text)
        forget_compiled(module)
    journal.unlink()


def _write_through(path: Path, text: str) -> None:
    """Give `path` the content `text` in one step; it is on the disk when this returns."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


@contextlib.contextmanager
def _locked(project: Project) -> Iterator[None]:
    """One promotion at a time in a checkout (where the system has file locks)."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with (project.state / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
