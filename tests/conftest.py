"""Fixtures that tests of every part use."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def default_model_dir() -> Path:
    """The folder of the default model, in the user's own cache; fetched first where it isn't there.

    A machine that can't have it fails the tests that need it: they must not be skipped in silence.
    """
    from tinyvllm.hub import resolve_model

    return resolve_model()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The cheapest first: a mistake shows in seconds; slow tests and the browser come last."""
    items.sort(key=lambda item: sum(bool(item.get_closest_marker(m)) for m in ("slow", "browser")))
