"""A copy of the set-up layer in a temporary folder, with stand-ins that record their calls."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

RECORDER = """\
#!PYTHON -S
import json, os, sys
call = {"argv": sys.argv[1:], "env": dict(os.environ)}
with open("LOG", "a") as log:
    log.write(json.dumps(call) + "\\n")
"""


class Workbench:
    """Runs `make` on the real Makefile; `PY` is a program that only records its calls."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.log = folder / "calls.jsonl"
        for name in ("Makefile", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, folder)
        shutil.copytree(ROOT / "scripts", folder / "scripts")
        recorder = RECORDER.replace("PYTHON", sys.executable).replace("LOG", str(self.log))
        self.program("recorder", recorder)
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C"}

    def program(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def make(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        return self.run("make", *arguments, "PY=./recorder", **environment)

    def calls(self) -> list[dict]:
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def commands(self) -> list[str]:
        return [" ".join(call["argv"]) for call in self.calls()]
