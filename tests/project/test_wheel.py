"""The package as a wheel: complete, and usable where there is no Jupyter."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from test_tree import tracked_files
from workbench import ROOT

pytestmark = pytest.mark.slow

# What only notebooks, tests and authors need. The engine may import them at most inside a function.
ABSENT = (
    "IPython ipykernel ipywidgets jupyter jupyter_client jupyter_core jupyter_server jupyterlab "
    "jupytext matplotlib nbclient nbconvert nbformat nbval playwright pytest hypothesis "
    "transformers gguf cupy cuda"
)

IMPORT_EVERYTHING = f"""
import importlib, pkgutil, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT.split()!r}:
            raise ImportError(f"{{name}} is not installed")

sys.meta_path.insert(0, Absent())
import tinyvllm
print(tinyvllm.__file__)
broken = []
for module in pkgutil.walk_packages(tinyvllm.__path__, "tinyvllm.", onerror=broken.append):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ImportError as error:
        broken.append(f"{{module.name}}: {{error}}")
print("\\n".join(broken))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from what git tracks, in a copy: setuptools leaves its things beside the source."""
    source = tmp_path_factory.mktemp("source")
    for path in tracked_files():
        target = source / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    command += ["--no-deps", "--no-build-isolation", "-w", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return next(out.glob("tinyvllm-*.whl"))


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel: Path):
    tracked = {
        str(path.relative_to(ROOT)) for path in tracked_files() if ROOT / "tinyvllm" in path.parents
    }
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert (sorted(tracked - packed), sorted(packed - tracked)) == ([], [])


def test_without_jupyter_the_whole_engine_can_be_imported(wheel: Path, tmp_path: Path):
    """Installed in an environment of its own that borrows torch and the like from this one."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    (packages,) = environment.glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(packages)
    borrowed = next(path for path in sys.path if path.endswith("site-packages"))
    # sys.path ends with it, and its own .pth files (an editable tinyvllm) are not read.
    (packages / "borrowed.pth").write_text(borrowed + "\n")
    done = subprocess.run(
        [python, "-I", "-c", IMPORT_EVERYTHING],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    location, *broken = done.stdout.split("\n")
    assert str(packages) in location, "the wheel was not what was imported"
    assert [line for line in broken if line and not line.startswith("tinyvllm.course.")] == []
