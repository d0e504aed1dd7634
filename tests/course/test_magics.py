"""`%load_ext tinyvllm.course` in a real kernel, driven as JupyterLab drives it: with cell ids."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_client.manager import KernelManager
from toy_course import set_text, solve

from tinyvllm.course.project import Project
from tinyvllm.course.sandbox import environment

RIGHT = "#| exercise 7.1 points=2\n#| promote toy/double.py\ndef double(x):\n    return x + x"
WRONG = RIGHT.replace("x + x", "x")
SECONDS = 120


class Kernel:
    """A kernel in the folder `cwd`; `run` gives what a cell printed and what it raised.

    `error` is the kind and the words of the error of the last cell, ("", "") if there was none.
    """

    def __init__(self, root: Path, cwd: Path, **env: str):
        self._manager = KernelManager(kernel_name="python3")
        self._manager.start_kernel(cwd=str(cwd), env=environment(root) | env)
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=SECONDS)

    def run(self, code: str, identity: str | None = None) -> str:
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        metadata = {"cellId": identity} if identity else {}
        message = self._client.session.msg("execute_request", content, metadata=metadata)
        self._client.shell_channel.send(message)
        printed, self.error = "", ("", "")
        while True:
            reply = self._client.get_iopub_msg(timeout=SECONDS)
            if reply["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            kind, content = reply["msg_type"], reply["content"]
            if kind == "stream":
                printed += content["text"]
            elif kind == "error":
                printed += "\n".join(content["traceback"])
                self.error = content["ename"], content["evalue"]
            elif kind == "status" and content["execution_state"] == "idle":
                return printed

    def stop(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel(toy: Project) -> Iterator[Kernel]:
    started = Kernel(toy.root, toy.root / "chapters")
    assert started.run("%load_ext tinyvllm.course") == ""
    yield started
    started.stop()


def test_a_lesson_typed_but_never_saved(toy: Project, kernel: Kernel):
    chapter = toy.chapter(7)
    solve(chapter, "7.2", "7.3", "7.4")
    assert "exercise 7.1 is still to do" in kernel.run("%check 7.1")
    kernel.run("import numpy as np")
    kernel.run(WRONG, "ch07-ex-7-1")
    assert kernel.run("%check 7.1").splitlines()[0] == "✗ exercise 7.1: doubles each element"
    kernel.run(RIGHT, "ch07-ex-7-1")
    assert kernel.run("%check 7.1") == "✓ exercise 7.1\n"
    assert "now holds your code" in kernel.run("%promote 7")
    assert "return x + x" in (toy.package / "toy/double.py").read_text()
    assert "x + x" not in chapter.notebook.read_text()


def test_an_open_kernel_follows_a_promotion(toy: Project, kernel: Kernel):
    kernel.run("from tinyvllm.toy.double import double")
    assert kernel.run("print(double(4))") == "8\n"
    solve(toy.chapter(7), "7.2", "7.3", "7.4")
    loud = RIGHT.replace("return x + x", "print('mine')\n    return x + x")
    kernel.run(loud, "ch07-ex-7-1")
    assert "now holds your code" in kernel.run("%promote 7")
    assert kernel.run("print(double(4))") == "mine\n8\n"


def test_a_cell_that_failed_or_was_edited_since_is_not_checked(toy: Project, kernel: Kernel):
    kernel.run(RIGHT + "\nnonsense", "ch07-ex-7-1")
    said = kernel.run("%check 7.1")
    assert "the cell of exercise 7.1 failed when it ran: NameError" in said
    kernel.run(RIGHT, "ch07-ex-7-1")
    set_text(toy.chapter(7), "#| exercise 7.1 points=2", RIGHT + "  # edited, not run")
    later = time.time() + 5
    os.utime(toy.chapter(7).notebook, (later, later))
    assert "was edited after it last ran" in kernel.run("%check 7.1")


def test_what_makes_no_sense_gets_a_sentence_without_a_traceback(toy: Project, kernel: Kernel):
    assert kernel.run("%check seven").startswith("%check takes the number of an exercise")
    assert kernel.run("%check 9.1") == "there is no chapter 9; there are: 7, 8"
    assert "exercise 7.12 is not in the notebook" in kernel.run("%check 7.12")
    assert kernel.run("%promote") == "which chapter? Give a number, several, 3-5 or all"


def test_an_interrupt_ends_a_check_and_the_next_one_works(toy: Project, kernel: Kernel):
    kernel.run("import numpy as np")
    kernel.run(RIGHT.replace("return x + x", "while True: pass"), "ch07-ex-7-1")
    kernel.run("import os, signal, threading")
    kernel.run("threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start()")
    assert "KeyboardInterrupt" in kernel.run("%check 7.1")
    kernel.run(RIGHT, "ch07-ex-7-1")
    assert kernel.run("%check 7.1") == "✓ exercise 7.1\n"


def test_in_the_solutions_folder_the_solution_is_checked(toy: Project):
    kernel = Kernel(toy.root, toy.root / "solutions")
    try:
        kernel.run("%load_ext tinyvllm.course")
        assert kernel.run("%check 7.1") == "✓ exercise 7.1\n"
        assert "`make build` promotes it" in kernel.run("%promote 7")
    finally:
        kernel.stop()


def test_a_renamed_notebook_is_told_to_take_its_name_back(toy: Project):
    session = str(toy.root / "chapters" / "mine.ipynb")
    kernel = Kernel(toy.root, toy.root / "chapters", JPY_SESSION_NAME=session)
    try:
        kernel.run("%load_ext tinyvllm.course")
        assert "this notebook is chapters/mine.ipynb" in kernel.run("%promote 7")
    finally:
        kernel.stop()
