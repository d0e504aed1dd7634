"""Inside the forked child: run some tests of a chapter against a temporary package.

Events go to a pipe as JSON lines, each at once, so that the parent knows what was running when the
student's code ends or blocks the process: {"start": test}, {"result": {...}}, {"end": true}.
"""

import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

# Plugins of pytest that a check doesn't need, and that cost it tens of milliseconds.
_UNUSED = ("unraisableexception", "threadexception", "junitxml", "pastebin", "doctest", "stepwise")
_UNUSED += ("setuponly", "setupplan", "legacypath", "faulthandler", "logging")
ARGUMENTS = ["-p", "no:cacheprovider", "--no-header", "--no-summary", "--tb=no", "-qq"]
ARGUMENTS += [word for name in _UNUSED for word in ("-p", f"no:{name}")]
_FRAMES = 3  # of the student's code, in a report
_PRINTED = 2000  # characters of what the student's code printed


def run(request: dict[str, Any], events: int) -> None:
    """Run the tests of `request` and write events to the file descriptor `events`.

    request: package_root (folder with tinyvllm/), scratch (a folder for this run), cells (file
    with the texts of the student's cells), cwd, test_file, tests (names; none: all), modules (to
    import first: "ops/rope.py").
    """
    send = _Events(events)
    root = request["package_root"]
    for name in [name for name in sys.modules if name.split(".")[0] == "tinyvllm"]:
        del sys.modules[name]
    sys.path.insert(0, root)
    os.environ["TINYVLLM_CELLS"] = request["cells"]
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(Path(request["scratch"]) / "hypothesis")
    os.chdir(request["cwd"])
    for path in request["modules"]:
        try:
            importlib.import_module("tinyvllm." + path[:-3].replace("/", "."))
        except BaseException as error:
            send(failed_import=path, **_described(error, error.__traceback__, root))
            return
    ini = Path(request["scratch"]) / "pytest.ini"
    ini.write_text("[pytest]\nmarkers =\n  slow:\n  gpu:\n  browser:\n")
    tests = [f"{request['test_file']}::{name}" for name in request["tests"]]
    arguments = ["-c", str(ini), "--confcutdir", str(Path(request["test_file"]).parent)]
    arguments += ARGUMENTS
    try:
        pytest.main(
            [*arguments, *(tests or [request["test_file"]])], plugins=[_Recorder(send, root)]
        )
    except SystemExit as error:
        described = _described(error, error.__traceback__, root)
        send(result={"name": "", "outcome": "failed", "printed": "", **described})
    send(end=True)


class _Events:
    def __init__(self, descriptor: int):
        self._descriptor = descriptor

    def __call__(self, **event: Any) -> None:
        line = (json.dumps(event) + "\n").encode()
        while line:
            line = line[os.write(self._descriptor, line) :]


class _Recorder:
    """The pytest plugin that turns reports into events."""

    def __init__(self, send: _Events, root: str):
        self._send, self._root = send, root

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._send(start=nodeid.rpartition("::")[2])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo) -> Any:
        report = yield
        if report.when == "call" or not report.passed:
            result = {"name": item.name, "outcome": report.outcome, "printed": report.capstdout}
            result["printed"] = result["printed"][-_PRINTED:]
            if call.excinfo is not None:
                result |= _described(call.excinfo.value, call.excinfo.tb, self._root)
            self._send(result=result)
        return report

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        if isinstance(report, pytest.CollectReport):
            described = _described(call.excinfo.value, call.excinfo.tb, self._root)
            self._send(result={"name": "", "outcome": "failed", "printed": "", **described})


def _described(error: BaseException, trace: TracebackType | None, root: str) -> dict[str, Any]:
    """An exception as plain data: kind, words, and where in the package or in a cell it passed."""
    frames = []
    if isinstance(error, SyntaxError) and error.filename:
        frames.append(
            [_inside(error.filename, root), error.lineno or 0, (error.text or "").strip()]
        )
    for frame in traceback.extract_tb(trace):
        if inside := _inside(frame.filename, root):
            frames.append([inside, frame.lineno or 0, frame.line or ""])
    words = str(error) if not isinstance(error, SyntaxError) else error.msg
    return {
        "kind": type(error).__name__,
        "words": words,
        "frames": [frame for frame in frames if frame[0]][-_FRAMES:] + _in_kernels(error, root),
    }


def _in_kernels(error: BaseException, root: str) -> list[list[Any]]:
    """The line of a `.cu` file of the package that an error of tinyvllm.cuda is about."""
    first = next(iter(getattr(error, "diagnostics", ())), error)
    name, line = getattr(first, "file", None), getattr(first, "line", None)
    path = Path(root) / "tinyvllm" / "kernels" / os.path.basename(str(name))
    if not isinstance(line, int) or not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return [[f"kernels/{path.name}", line, text]]


def _inside(filename: str, root: str) -> str:
    """ "ops/rope.py" for a file of the package, "<the cell of ...>" for a cell, '' for others."""
    if filename.startswith("<the cell"):
        return filename
    package = os.path.join(root, "tinyvllm") + os.sep
    return filename.removeprefix(package) if filename.startswith(package) else ""
