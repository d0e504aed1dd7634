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
