"""The fixture `exercises`: what the cells of the tested chapter define."""

import pytest

from tinyvllm.course.fixture import exercises_for
from tinyvllm.course.namespace import Exercises


@pytest.fixture(scope="module")
def exercises(request: pytest.FixtureRequest) -> Exercises:
    """The student's cells in a check, the reference's cells in `pytest tests/chapters`."""
    return exercises_for(request.path)
