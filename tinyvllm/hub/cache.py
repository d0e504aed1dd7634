"""The cache on disk: where it is, when a model in it is complete, how one gets in (whole or not).

A model is made in a folder beside its place and renamed into it, so nobody ever sees a half of it.
Who makes it holds a lock of the operating system, which ends with its process: a crash can't block
others, and the next to come clears away what the crash left.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tinyvllm.hub.errors import DiskFull, ModelNotAvailable, as_os_error, is_disk_full, megabytes
from tinyvllm.hub.progress import Progress

MANIFEST = "tinyvllm.json"
LONGEST_WAIT = 3600.0  # seconds for another process; more than a slow line needs for 100 MB


def cache_home() -> Path:
    """$TINYVLLM_HOME, which may be shared and read-only, else the user's cache directory."""
    named = os.environ.get("TINYVLLM_HOME")
    if named:
        return Path(named).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tinyvllm"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "tinyvllm"
    cache = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore a relative path.
    return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "tinyvllm"


def is_complete(folder: Path) -> bool:
    """Whether `folder` has its manifest and every file named there, of the size named there."""
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        return all((folder / name).stat().st_size == size for name, size in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def make_once(
    folder: Path,
    make: Callable[[Path, Path], dict[str, Any]],
    *,
    needs: int,
    progress: Progress,
) -> Path:
    """Return `folder`, complete; make it first if it isn't, alone among all processes and threads.

    `make(model, scratch)` fills the empty folder `model`, may use the empty folder `scratch`, and
    returns what the manifest shall say beside the files' sizes. `needs` is in bytes of free disk.
    Raises DiskFull, ModelNotAvailable, and what `make` raises; then nothing of it is left.
    """
    if is_complete(folder):
        return folder
    with _sentences_for(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with _lock(folder, progress):
        if is_complete(folder):  # made by the process that we waited for
            return folder
        for leftover in folder.parent.glob(f".{folder.name}.tmp-*"):  # of a process that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        free = shutil.disk_usage(folder.parent).free
        if free < needs:
            raise DiskFull(
                _no_room(folder, f"{megabytes(needs)} are needed, {megabytes(free)} free")
            )
        temporary = folder.parent / f".{folder.name}.tmp-{os.getpid()}"
        with _sentences_for(folder):
            try:
                # Not tempfile: its folders are closed to others, and a cache may be shared.
                for part in (temporary, temporary / "model", temporary / "scratch"):
                    part.mkdir()
                manifest = make(temporary / "model", temporary / "scratch")
                _finish(temporary / "model", manifest)
                if folder.exists():  # damaged: out of the way, in one step
                    folder.rename(temporary / "damaged")
                (temporary / "model").rename(folder)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _finish(model: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest of a folder that has everything else, and push it all to the disk."""
    files = sorted(path for path in model.iterdir() if path.is_file())
    manifest = manifest | {"files": {path.name: path.stat().st_size for path in files}}
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    (model / MANIFEST).write_text(text, encoding="utf-8")
    mode = (model / MANIFEST).stat().st_mode  # what the user's umask allows
    for path in [*files, model / MANIFEST]:
        path.chmod(mode)  # safetensors writes files that only their owner can read
        with open(path, "rb+") as file:
            os.fsync(file.fileno())


@contextmanager
def _lock(folder: Path, progress: Progress) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock = FileLock(folder.parent / f".{folder.name}.lock", mode=0o666)
    with _sentences_for(folder):
        try:
            lock.acquire(timeout=0)
        except Timeout:
            progress.say(
                f"Another process is fetching {folder.name} into {folder.parent}: waiting for it "
                "(Ctrl-C stops the waiting, not the other)."
            )
            try:
                lock.acquire(timeout=LONGEST_WAIT, poll_interval=0.1)
            except Timeout:
                raise ModelNotAvailable(
                    f"Another process has been fetching {folder.name} into {folder.parent} for "
                    f"{LONGEST_WAIT / 60:.0f} minutes. If it hangs, end it and try again."
                ) from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _sentences_for(folder: Path) -> Iterator[None]:
    """Turn the errors of the file system into sentences about `folder`."""
    try:
        yield
    except ModelNotAvailable:
        raise
    except Exception as error:
        if is_disk_full(error):
            raise DiskFull(
                _no_room(folder, "it became full while the model was written")
            ) from error
        cause = as_os_error(error)
        if cause is None:
            raise
        if os.environ.get("TINYVLLM_HOME"):
            advice = (
                "Unset TINYVLLM_HOME to use your own cache, or let its owner run `tinyvllm fetch`"
            )
        else:
            advice = "Set TINYVLLM_HOME to a folder that you may write"
        raise ModelNotAvailable(
            f"{folder.name} is not in {folder.parent} yet (or not all of it), and it can't be "
            f"written there: {cause.strerror or cause}. {advice}."
        ) from error


def _no_room(folder: Path, why: str) -> str:
    return (
        f"The disk of {folder.parent} has no room for {folder.name}: {why}. "
        "Free some space, or set TINYVLLM_HOME to a folder on another disk."
    )
