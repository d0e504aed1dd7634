"""The workbench of this folder's tests."""

from pathlib import Path

import pytest
from workbench import Workbench


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)
