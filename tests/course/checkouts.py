"""A copy of this repository as somebody who has just cloned it has it, with git in it."""

import shutil
import subprocess
from pathlib import Path

from toy_course import REPOSITORY

from tinyvllm.course.project import Project

_FOLDERS = ("chapters", "solutions", "tests", "tinyvllm")


def clone(target: Path) -> Project:
    """Copy what a clone would hold (from the working tree) and commit it in a new repository."""
    ignore = shutil.ignore_patterns("__pycache__", ".*", "*.backup-*")
    for name in _FOLDERS:
        shutil.copytree(REPOSITORY / name, target / name, ignore=ignore)
    for name in ("pyproject.toml", ".gitignore", ".gitattributes"):
        shutil.copy(REPOSITORY / name, target)
    git(target, "init", "-q", "-b", "main")
    git(target, "add", "-A")
    git(target, "commit", "-q", "-m", "as cloned")
    return Project(target)


def git(root: Path, *arguments: str) -> str:
    """What a git command prints in the repository `root`."""
    identity = ("-c", "user.name=A Student", "-c", "user.email=student@example.org")
    command = ["git", *identity, *arguments]
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return done.stdout
