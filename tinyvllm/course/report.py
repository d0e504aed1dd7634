"""From the events of a check to what the student reads."""

import re
from collections.abc import Callable
from typing import Any

_LINES = 12  # of one message


def words_for(number: str, reply: dict[str, Any], place: Callable[[str, int], str]) -> str:
    """Words for what is wrong, or '' if at least one test ran and none failed.

    `number` is "5.2" or "tests of chapter 5"; `place` finds the cell of a module's line.
    """
    title = f"exercise {number}" if number[0].isdigit() else number
    events = reply["events"]
    results = [event["result"] for event in events if "result" in event]
    failed_import = next((event for event in events if "failed_import" in event), None)
    failures = [result for result in results if result["outcome"] == "failed"]
    passed = [result for result in results if result["outcome"] == "passed"]
    if failed_import:
        failures = [failed_import | {"name": "", "printed": reply["printed"]}]
    if reply["ended"]:
        started = next((e["start"] for e in reversed(events) if "start" in e), "")
        during = f" (while checking: {sentence(started)})" if started else ""
        return f"✗ {title}: {reply['ended']}{during}" + _printed(reply["printed"])
    if failures:
        return _failure(title, failures, len(passed), number, place)
    if not passed:
        reasons = {result.get("words", "") for result in results} or {"no test ran"}
        return f"✗ {title} could not be checked here: {'; '.join(sorted(reasons))}"
    return ""


def sentence(test: str) -> str:
    """ "the header is little endian" from test_1_2_the_header_is_little_endian[case]."""
    name, _, case = test.partition("[")
    words = re.sub(r"^test_(\d+_\d+_)?", "", name).replace("_", " ")
    return f"{words} [{case}" if case else words


def _failure(
    title: str,
    failures: list[dict[str, Any]],
    passed: int,
    number: str,
    place: Callable[[str, int], str],
) -> str:
    first = failures[0]
    lines = [f"✗ {title}" + (f": {sentence(first['name'])}" if first["name"] else "")]
    lines += [f"  {line}" for line in _message(first, number)]
    for path, line, code in reversed(first["frames"]):
        where = place(path, line) or _in_cell(path, line)
        if where:
            lines.append(f"  in {where}: {code}".rstrip(": "))
            break
    if len(failures) > 1 or (passed and first["name"]):
        lines.append(f"  ({len(failures)} of {len(failures) + passed} tests fail)")
    return "\n".join(lines) + _printed(first["printed"])


def _message(result: dict[str, Any], number: str) -> list[str]:
    kind, words = result["kind"], result["words"]
    stub = re.match(r"exercise (\S+)$", words) if kind == "NotImplementedError" else None
    if kind == "CompileError":  # a kernel that calls a function which is still to do
        stub = re.search(r'#error "?exercise (\d+\.\d+)', words)
    if stub:
        other = stub[1]
        if other == number:
            return [f"exercise {other} is still to do"]
        return [f"this needs exercise {other} first: it is still to do"]
    if kind == "MemoryError" or "can't allocate memory" in words or "bad_alloc" in words:
        return ["the code asked for more memory than a check may use (4 GB)", words]
    if kind == "SystemExit":
        return ["the code ended Python (sys.exit or exit)"]
    if kind == "Skipped":
        return [f"it could not be checked here: {words}"]
    if kind != "AssertionError":
        words = f"{kind}: {words}"
    lines = (words or "an assert of the test failed").splitlines()
    return lines if len(lines) <= _LINES else [*lines[:_LINES], "..."]


def _in_cell(path: str, line: int) -> str:
    return f"{path[1:-1]}, line {line}" if path.startswith("<") else ""


def _printed(text: str) -> str:
    if not text.strip():
        return ""
    lines = text.rstrip().splitlines()[-_LINES:]
    return "\n  your code printed:\n" + "\n".join(f"    {line}" for line in lines)
