"""Fixtures that tests of every part use."""

import os
import signal
from pathlib import Path

import pytest

# Beside another worker, one thread each: two on a core wait for each other more than they compute.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

# A shell that starts the tests in the background makes them, and all they start, deaf to Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
