"""Fixtures of the course tool's tests: a toy course, and one warm worker for all of them."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import toy_course as toys

from tinyvllm.course.build import build
from tinyvllm.course.check import Checker
from tinyvllm.course.project import Project
from tinyvllm.course.worker import Worker


@pytest.fixture(scope="session")
def built_toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy course, built without running it; tests take copies."""
    project = toys.make(tmp_path_factory.mktemp("built") / "toy")
    assert build(project, project.chapters(), draft=True) == 0
    return project.root


@pytest.fixture
def toy(built_toy: Path, tmp_path: Path) -> Project:
    """A built toy course of this test's own."""
    return Project(Path(shutil.copytree(built_toy, tmp_path / "toy")))


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    started = Worker()
    yield started
    started.close()


@pytest.fixture
def checker(toy: Project, worker: Worker) -> Iterator[Checker]:
    """A checker for `toy` that shares the warm process."""
    with Checker(toy, worker) as checker:
        yield checker
