"""A temporary copy of the package with other modules in it, where code is tried out.

The student's cells replace the chapter's modules in the copy, so that what is tested is theirs and
importing the reference can't pass for it. The checkout itself is not touched.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tinyvllm.course.project import Chapter, Project

# Leftovers that nothing imports.
_LEFT_OUT = shutil.ignore_patterns("*.tmp", ".*")


def copy_package(project: Project, target: Path, modules: dict[str, str]) -> None:
    """Copy `tinyvllm/` into the folder `target`, with `modules` (path -> text) put in."""
    package = target / "tinyvllm"
    # copy2 keeps modification times, so compiled files stay valid and imports stay fast.
    shutil.copytree(project.package, package, ignore=_LEFT_OUT, copy_function=shutil.copy2)
    for path, text in modules.items():
        write_module(package / path, text)


class PackageCopy:
    """A copy of the package that is kept for the next check, and brought up to date for each.

    Copying all of it takes longer than many a check; comparing times and sizes doesn't.
    """

    def __init__(self, project: Project):
        self._project = project
        self._folder = tempfile.TemporaryDirectory(prefix="tinyvllm-", ignore_cleanup_errors=True)
        self._copied: dict[str, tuple[int, int]] = {}
        self._written: dict[str, str] = {}

    @property
    def root(self) -> Path:
        """The folder that holds the copy `tinyvllm/`."""
        return Path(self._folder.name).resolve()

    def update(self, modules: dict[str, str]) -> None:
        """Make the copy equal to the package with `modules` (path -> text) put in."""
        package = self.root / "tinyvllm"
        now = dict(_files(self._project.package))
        for path in (self._copied.keys() - now.keys()) | (self._written.keys() - modules.keys()):
            (package / path).unlink(missing_ok=True)
            self._copied.pop(path, None)
            self._written.pop(path, None)
        for path, stamp in now.items():
            if path not in modules and self._copied.get(path) != stamp:
                (package / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self._project.package / path, package / path)
                forget_compiled(package / path)
                self._copied[path] = stamp
        for path, text in modules.items():
            if self._written.get(path) != text:
                write_module(package / path, text)
                self._copied.pop(path, None)
                self._written[path] = text

    def close(self) -> None:
        """Remove the copy."""
        self._folder.cleanup()


def _files(folder: Path, prefix: str = "") -> Iterator[tuple[str, tuple[int, int]]]:
    """(path below the package, (time, size)) of each file, compiled ones left out."""
    for entry in os.scandir(folder):
        if entry.name == "__pycache__" or entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _files(Path(entry.path), f"{prefix}{entry.name}/")
        else:
            stat = entry.stat()
            yield prefix + entry.name, (stat.st_mtime_ns, stat.st_size)


def write_module(path: Path, text: str) -> None:
    """Write a module and forget its compiled form, which Python would match by size and second."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    forget_compiled(path)


def forget_compiled(path: Path) -> None:
    """Remove `__pycache__/name.*.pyc` of the module at `path`."""
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink(missing_ok=True)


@contextmanager
def checkout(
    project: Project, chapter: Chapter, modules: dict[str, str], files: dict[Path, str]
) -> Iterator[Project]:
    """A temporary checkout: package with `modules`, chapter tests, and `files` (path -> text).

    The paths of `files` are those of the real checkout.
    """
    with tempfile.TemporaryDirectory(prefix="tinyvllm-") as folder:
        copy = Project(Path(folder).resolve())
        copy_package(project, copy.root, modules)
        (copy.root / "tests").mkdir()
        if (project.root / "tests" / "chapters").is_dir():
            shutil.copytree(project.root / "tests/chapters", copy.root / "tests/chapters")
        for path in (chapter.solution, chapter.notebook):
            target = copy.root / path.relative_to(project.root)
            target.parent.mkdir(exist_ok=True)
            if path.exists():
                shutil.copyfile(path, target)
        for path, text in files.items():
            (copy.root / path.relative_to(project.root)).write_text(text, encoding="utf-8")
        yield copy


def environment(root: Path, *, gpu: bool = True) -> dict[str, str]:
    """The environment in which a new Python imports tinyvllm from the checkout `root`."""
    env = dict(os.environ)
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), env.get("PYTHONPATH")]))
    env.pop("JPY_SESSION_NAME", None)  # it names the notebook of the kernel that we are in
    if not gpu:
        env["CUDA_VISIBLE_DEVICES"] = ""
    return env


def run_python(
    arguments: list[str], root: Path, *, cwd: Path | None = None, gpu: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run this Python with tinyvllm imported from `root`; output and errors as one text."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd or root,
        env=environment(root, gpu=gpu),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
