"""A student's chapter 02 in JupyterLab itself, in a browser: wrong, right, promoted, reset.

Needs Chromium (Debian: `apt-get install --no-install-recommends chromium fonts-dejavu-core`). The
last picture goes to the file that TINYVLLM_SCREENSHOT names, if it is set.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkouts import clone, git

from tinyvllm.course.cells import Cell
from tinyvllm.course.mutants import mutants_of
from tinyvllm.course.project import Project
from tinyvllm.course.promote import reference_cells
from tinyvllm.course.sandbox import environment, run_python

pytestmark = [pytest.mark.browser, pytest.mark.slow]
CHAPTER = 2
MILLISECONDS = 400_000  # that anything may take on a busy machine
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "docmanager-extension/plugin": {"autosave": False},
    "notebook-extension/tracker": {"windowingMode": "none"},
}
CHROMIUM = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    if os.environ.get("CI"):
        pytest.fail("CI must have Chromium for the test of JupyterLab")
    pytest.skip("no Chromium on this machine: JupyterLab is not driven")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return clone(tmp_path / "tinyvllm")


@pytest.fixture
def lab(project: Project, tmp_path: Path) -> Iterator[str]:
    """The address of a JupyterLab that serves the copy of the repository."""
    env = environment(project.root, gpu=False)
    for name in ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR"):
        env[f"JUPYTER_{name}"] = str(tmp_path / "jupyter" / name)
    settings = tmp_path / "settings"
    env |= {
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        "JUPYTERLAB_WORKSPACES_DIR": str(tmp_path / "workspaces"),
    }
    for name, values in SETTINGS.items():
        file = settings / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += ["--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"]
    command += ["--IdentityProvider.token=", f"--ServerApp.root_dir={project.root}"]
    with (tmp_path / "lab.log").open("w") as log:
        server = subprocess.Popen(command, env=env, cwd=project.root, stdout=log, stderr=log)
        try:
            _wait_for(f"http://127.0.0.1:{port}/api", server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait()


def _wait_for(address: str, server: subprocess.Popen) -> None:
    """Ask until the server answers; it is given up when its process ends."""
    while server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=10):
                return
        except OSError:
            # The connection was refused, or nothing came: ask again when the process had a turn.
            try:
                server.wait(timeout=0.5)
            except subprocess.TimeoutExpired:
                continue
    pytest.fail("JupyterLab did not start")


def test_a_students_chapter_in_jupyterlab(chromium: str, project: Project, lab: str):
    from playwright.sync_api import sync_playwright

    chapter = project.chapter(CHAPTER)
    reference = reference_cells(chapter)
    right = [cell for cell in reference if cell.exercise]
    target = next(cell for cell in right if cell.promote)
    mutant = next(m for m in mutants_of(chapter) if m.exercise == target.exercise)
    wrong = next(c for c in mutant.put_into(reference) if c.exercise == target.exercise)
    as_cloned = chapter.notebook.read_bytes()

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium,
            headless=True,
            args=CHROMIUM,
        )
        page = browser.new_page(viewport={"width": 1280, "height": 1400})
        page.set_default_timeout(MILLISECONDS)
        notebook = _Notebook(page, f"{lab}/lab/tree/chapters/{chapter.name}.ipynb?reset")

        # A wrong answer among right ones: the notebook stops at its check, with words.
        for cell in right:
            notebook.type_into(cell, (wrong if cell is target else cell).without_markers())
        notebook.run_all()
        said = notebook.output_of(f"%check {target.exercise}")
        assert f"✗ exercise {target.exercise}" in said
        assert all(phrase in said for phrase in mutant.expects)
        assert git(project.root, "diff", "--stat", "tinyvllm") == ""

        # The right answer, typed and never saved, is what gets promoted.
        notebook.type_into(target, target.without_markers() + "\n# typed in a browser")
        notebook.run_all()
        said = notebook.output_of(f"%promote {CHAPTER}")
        assert f"tinyvllm/{target.promote} now holds your code" in said
        assert notebook.output_of(f"%check {target.exercise}").strip().startswith("✓")
        assert chapter.notebook.read_bytes() == as_cloned
        diff = git(project.root, "diff", "tinyvllm")
        assert "+# typed in a browser" in diff and "+# Your code, from chapters/" in diff
        if picture := os.environ.get("TINYVLLM_SCREENSHOT"):
            notebook.show(f"%promote {CHAPTER}")
            page.screenshot(path=picture)
        browser.close()

    done = run_python(["-m", "tinyvllm", "course", "reset", str(CHAPTER)], project.root)
    assert done.returncode == 0, done.stdout
    assert git(project.root, "diff", "--stat", "tinyvllm") == ""


class _Notebook:
    """The notebook that is open in the page."""

    def __init__(self, page, address: str):
        self._page = page
        page.goto(address)
        page.wait_for_selector(".jp-Notebook .jp-CodeCell")
        self._wait_until_idle()

    def type_into(self, cell: Cell, text: str) -> None:
        """Replace the text of an exercise's cell, as a person would: select all, and type."""
        editor = self._cell(f"#| exercise {cell.exercise}").locator(".cm-content")
        editor.scroll_into_view_if_needed()
        editor.click()
        self._page.keyboard.press("Control+A")
        self._page.keyboard.insert_text(text)

    def run_all(self) -> None:
        self._page.get_by_role("menuitem", name="Run", exact=True).click()
        self._page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        self._page.wait_for_function(
            "document.querySelector('.jp-Notebook-ExecutionIndicator').dataset.status === 'busy'"
        )
        self._wait_until_idle()

    def output_of(self, line: str) -> str:
        outputs = self._cell(line).locator(".jp-OutputArea-output")
        outputs.first.wait_for()
        return "\n".join(outputs.all_inner_texts())

    def show(self, line: str) -> None:
        self._cell(line).scroll_into_view_if_needed()

    def _cell(self, line: str):
        return self._page.locator(".jp-CodeCell", has_text=line).first

    def _wait_until_idle(self) -> None:
        self._page.wait_for_function(
            "document.querySelector('.jp-Notebook-ExecutionIndicator')?.dataset.status === 'idle'"
        )
