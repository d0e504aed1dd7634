"""What holds for every tracked file: no leftovers, nothing of one machine, ruff is content."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from workbench import ROOT

# Written in pieces, so that this file doesn't find itself.
FORBIDDEN = {
    "unfinished": r"\b(TO" + r"DO|FIX" + r"ME)\b",
    "a path of one machine": r"(?<![\w.~-])/(wo" + r"rk|ro" + r"ot|ho" + r"me)/\w"
    r"|/opt/(whe" + r"els|py" + r"pi)|/tmp/(?!ipykernel_)[a-z]",
    "the host of a package registry": r"(pypi|pythonhosted|deb\.debian|security\.debian|npmjs)"
    + r"\.(org|com)"
    + r"|download\.pyt"
    + r"orch\.org|registry\.np"
    + r"mjs",
    "a merge conflict": r"^(<{7}|>{7}) ",
    "a word of how this was made": r"(?i)\b(work" + r"place|sub-?ag" + r"ent|cla" + r"ude)\b",
}


def tracked_files() -> list[Path]:
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    if os.environ.get("CI"):
        return files
    # A student's own notebooks are the student's business.
    return [path for path in files if ROOT / "chapters" not in path.parents]


def texts() -> dict[Path, str]:
    found = {}
    for path in tracked_files():
        try:
            found[path.relative_to(ROOT)] = path.read_bytes().decode()
        except UnicodeDecodeError:
            continue  # a picture, a tensor
    return found


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_tracked_file_contains(what):
    pattern = re.compile(FORBIDDEN[what], re.MULTILINE)
    hits = [
        f"{path}:{text.count(chr(10), 0, hit.start()) + 1}: {hit[0]}"
        for path, text in texts().items()
        for hit in pattern.finditer(text)
    ]
    assert hits == []


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("unfinished", "# TO" + "DO: later"),
        ("a path of one machine", "open('/ho" + "me/jane/model')"),
        ("a path of one machine", "cd /wo" + "rk/main"),
        ("the host of a package registry", "https://py" + "pi.org/simple"),
        ("the host of a package registry", "https://download.pyt" + "orch.org/whl/cpu"),
        ("a merge conflict", "text\n" + "<" * 7 + " HEAD\n"),
        ("a word of how this was made", "on this work" + "place"),
    ],
)
def test_the_search_finds_what_it_is_for(what, text):
    assert re.search(FORBIDDEN[what], text, re.MULTILINE)


@pytest.mark.parametrize(
    "text", ["/usr/bin/chromium", "framework/x", "docs/root/x", "NVIDIA's PyPI"]
)
def test_the_search_leaves_ordinary_text_alone(text):
    assert not [what for what, pattern in FORBIDDEN.items() if re.search(pattern, text)]


def test_text_files_end_in_a_newline_and_have_unix_line_ends():
    wrong = [
        str(path)
        for path, text in texts().items()
        if text and (not text.endswith("\n") or "\r\n" in text) and path.suffix != ".ipynb"
    ]
    assert wrong == []


def test_nothing_is_tracked_that_git_is_told_to_ignore():
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-ci", "--exclude-standard"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout == ""


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=" ".join)
def test_ruff_is_content(command):
    files = [str(path) for path in tracked_files() if path.suffix == ".py"]
    ruff = [sys.executable, "-m", "ruff", *command, "--quiet", "--force-exclude", *files]
    done = subprocess.run(ruff, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_scripts_can_be_executed():
    assert [s for s in (".ci/run",) if not (ROOT / s).stat().st_mode & 0o111] == []
