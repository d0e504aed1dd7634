"""The warm process: torch and pytest are imported once, and each check runs in a fork of it.

A fork costs milliseconds where a new Python would import torch for seconds; and whatever the
student's code does (an endless loop, os._exit, all the memory) happens in the fork, which this
process watches and ends. Requests and replies are JSON lines on stdin and stdout. It never runs a
tensor operation itself: the threads of one would not survive a fork.
"""

import contextlib
import gc
import importlib
import importlib.util
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tinyvllm.course.project import CourseError

MEMORY_BYTES = 4 << 30
_POLL_SECONDS = 0.05


class Worker:
    """The client's end: starts the process at once and lets it import while others work."""

    def __init__(self) -> None:
        if not hasattr(os, "fork"):
            raise CourseError(
                "checks run in a forked process, which Windows does not have: work in WSL"
            )
        if importlib.util.find_spec("pytest") is None:
            raise CourseError("checks need pytest: pip install pytest")
        from tinyvllm.course.sandbox import environment

        root = Path(__file__).resolve().parents[2]
        env = environment(root) | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_CURRENT_TEST"):
            env.pop(name, None)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tinyvllm.course.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
            start_new_session=True,  # an interrupt of the kernel is not meant for it
        )

    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request, one reply: {"events": [...], "ended": "", "printed": "..."}.

        `ended` says in words why the process that ran the tests is no more, '' if it finished.
        """
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write((json.dumps(request) + "\n").encode())
            self._process.stdin.flush()
            reply = self._process.stdout.readline()
        except BrokenPipeError:
            reply = b""
        except BaseException:  # interrupted while waiting: the next reply would be this one's
            self.close()
            raise
        if not reply:
            self.close()
            raise CourseError("the process that runs checks has ended: run the check again")
        return json.loads(reply)

    def close(self) -> None:
        """End the process and whatever it runs."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]


def serve() -> None:
    """Answer requests until stdin ends."""
    replies = os.dup(1)
    os.dup2(2, 1)  # a stray print must not become a reply
    for name in ("torch", "numpy", "pytest", "hypothesis", "safetensors.torch"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    importlib.import_module("tinyvllm.course.runner")
    _warm_pytest()
    gc.freeze()  # what is imported stays: a fork need not look through it, or copy its pages
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    folders: set[str] = set()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        folders |= {request["package_root"], request["scratch"]}
        os.write(replies, (json.dumps(_answer(request)) + "\n").encode())
    for folder in folders:  # the notebook's kernel was killed: nobody else will do it
        shutil.rmtree(folder, ignore_errors=True)


def _warm_pytest() -> None:
    """Import what pytest imports only when it runs a test."""
    import pytest

    from tinyvllm.course.runner import ARGUMENTS

    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as null:
        test = Path(folder) / "test_nothing.py"
        test.write_text("def test_nothing(tmp_path):\n    assert tmp_path\n")
        (Path(folder) / "pytest.ini").write_text("[pytest]\n")
        with contextlib.redirect_stdout(null), contextlib.redirect_stderr(null):
            pytest.main([*ARGUMENTS, "--basetemp", f"{folder}/tmp", str(test)])
    sys.modules.pop("test_nothing", None)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    """Run one request in a fork and watch it."""
    read, write = os.pipe()
    printed = Path(request["scratch"]) / "printed.txt"
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _child(request, write, printed)
    os.close(write)
    try:
        raw, ended = _watch(pid, read, request["seconds"], request.get("memory", MEMORY_BYTES))
    finally:
        os.close(read)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)  # what it has started itself
    events = [json.loads(line) for line in raw.split(b"\n") if line.endswith(b"}")]
    finished = any("end" in event or "failed_import" in event for event in events)
    text = printed.read_text(encoding="utf-8", errors="replace") if printed.exists() else ""
    return {"events": events, "ended": "" if finished else ended, "printed": text[-2000:]}


def _child(request: dict[str, Any], events: int, printed: Path) -> None:
    """The forked child: never returns."""
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        out = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for target, source in ((0, null), (1, out), (2, out)):
            os.dup2(source, target)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _limit_memory(request.get("memory", MEMORY_BYTES))
        from tinyvllm.course.runner import run

        run(request, events)
    finally:
        os._exit(0)


def _limit_memory(allowed: int) -> None:
    """Let allocations beyond `allowed` bytes fail in the student's code, where Linux can.

    Not where there is an NVIDIA driver: it maps far more than it uses.
    """
    status = Path("/proc/self/status")
    if status.exists() and not Path("/dev/nvidiactl").exists():
        import resource

        data = next(line for line in status.read_text().splitlines() if line.startswith("VmData"))
        limit = int(data.split()[1]) * 1024 + allowed
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _watch(pid: int, read: int, seconds: float, memory: int) -> tuple[bytes, str]:
    """All that the child writes, and words for how it ended."""
    raw = b""
    deadline = time.monotonic() + seconds
    base = _resident(pid)
    ended = ""
    while not ended:
        if select.select([read], [], [], _POLL_SECONDS)[0]:
            piece = os.read(read, 1 << 16)
            if not piece:
                break
            raw += piece
        if time.monotonic() > deadline:
            ended = (
                f"it was not finished after {seconds:g} seconds and was stopped: is there a loop"
                " that never ends?"
            )
        elif _resident(pid) - base > memory:
            ended = f"it used more than {memory / (1 << 30):g} GB of memory and was stopped"
    if ended:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(_wait(pid, deadline))
    if ended:
        return raw, ended
    if status < 0:
        return raw, f"Python crashed ({signal.Signals(-status).name})"
    return raw, f"the code ended Python itself (exit status {status}): os._exit?"


def _wait(pid: int, deadline: float) -> int:
    """The child's wait status; it is killed if it has closed its pipe and doesn't end."""
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            return os.waitpid(pid, 0)[1]
        time.sleep(0.002)


def _resident(pid: int) -> int:
    """Bytes of memory that the process holds; 0 where there is no /proc."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    serve()
