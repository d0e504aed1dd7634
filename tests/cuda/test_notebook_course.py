"""A chapter with kernels, built, checked, promoted: the student's cells are what is compiled."""

import atexit
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("IPython", reason="IPython comes with the `test` extra")
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import tinyvllm
from tinyvllm.course import notebooks
from tinyvllm.course.build import build
from tinyvllm.course.cells import Cell
from tinyvllm.course.check import Checker
from tinyvllm.course.collect import collect
from tinyvllm.course.magics import CheckFailed, Course
from tinyvllm.course.project import Chapter, Project
from tinyvllm.course.promote import promote
from tinyvllm.course.testing import run_chapter
from tinyvllm.course.worker import Worker

REPOSITORY = Path(tinyvllm.__file__).resolve().parent.parent

SOURCE = """---
jupyter:
  tinyvllm:
    title: "kernels: a toy"
    minutes: 60
---

# Chapter 09 · kernels

```python
%load_ext tinyvllm.course
import torch
```

```python
%%cuda
//| promote kernels/toy.cu
// Kernels of the toy chapter.
#include "device.cuh"

__device__ float halved(float x) { return x / 2; }
```

```python
%%cuda double_it
//| exercise 9.1 points=4
//| promote kernels/toy.cu
__global__ void double_it(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // BEGIN SOLUTION
    if (i < n) x[i] *= 2;
    // END SOLUTION
}
```

```python
%check 9.1
```

```python
x = torch.arange(5.0)
double_it((2,), (4,), (x, 5))
print(x.tolist())
```

```python
%%cuda
//| exercise 9.2
//| promote kernels/toy.cu
// BEGIN SOLUTION
__device__ float quartered(float x) { return halved(halved(x)); }
// END SOLUTION

__global__ void quarter(float* x) { x[threadIdx.x] = quartered(x[threadIdx.x]); }
```

```python
%check 9.2
```

```python
%%cuda eighth
//| exercise 9.3
//| promote kernels/toy.cu
__global__ void eighth(float* x) {
    // BEGIN SOLUTION
    x[threadIdx.x] = halved(quartered(x[threadIdx.x]));
    // END SOLUTION
}
```

```python
%check 9.3
```

```python
%%cuda greet
//| exercise 9.4
// Not promoted: the check reaches it through the fixture.
#include "toy.cu"

__global__ void greet(float* x) {
    // BEGIN SOLUTION
    x[0] = halved(x[0]);
    printf("thread %d says %.1f\\n", threadIdx.x, x[0]);
    // END SOLUTION
}
```

```python
%check 9.4
```

```python
greet(1, 1, (x[1:],))
```

```python
%promote 9
```
"""

TESTS = """
import torch

from tinyvllm.course import expect


def kernel(name):
    from tinyvllm.cuda import load

    return load("toy.cu", name)


def test_9_1_doubles_each_element():
    x = torch.arange(5.0)
    kernel("double_it").check((2,), (4,), (x, 5))
    expect.equal(x, torch.arange(5.0) * 2, "x after double_it")


def test_9_2_a_quarter_of_each():
    x = torch.ones(2)
    kernel("quarter").check((1,), (2,), (x,))
    expect.equal(x, torch.full((2,), 0.25), "x after quarter")


def test_9_3_an_eighth_of_each():
    x = torch.ones(2)
    kernel("eighth").check((1,), (2,), (x,))
    expect.equal(x, torch.full((2,), 0.125), "x after eighth")


def test_9_4_half_of_the_first(exercises):
    x = torch.ones(2)
    exercises.greet(1, 1, (x,))
    expect.equal(x, torch.tensor([0.5, 1.0]), "x after greet")
"""


def make(root: Path) -> Project:
    """A checkout of one chapter, with the real course tool and the real tinyvllm.cuda."""
    ignore = shutil.ignore_patterns("__pycache__")
    for folder in ("course", "cuda"):
        shutil.copytree(REPOSITORY / "tinyvllm" / folder, root / "tinyvllm" / folder, ignore=ignore)
    (root / "tinyvllm/__init__.py").write_text("")
    (root / "tinyvllm/kernels").mkdir()
    shutil.copy(REPOSITORY / "tinyvllm/kernels/device.cuh", root / "tinyvllm/kernels")
    for folder in ("solutions", "chapters", "tests/chapters"):
        (root / folder).mkdir(parents=True)
    (root / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    shutil.copy(REPOSITORY / "tests/chapters/conftest.py", root / "tests/chapters")
    (root / "solutions/09_toy.md").write_text(SOURCE)
    (root / "tests/chapters/test_09_toy.py").write_text(TESTS)
    return Project(root)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chapter as build writes it, without running it."""
    project = make(tmp_path_factory.mktemp("built") / "toy")
    said: list[str] = []
    assert build(project, project.chapters(), draft=True, say=said.append) == 0, said
    return project.root


@pytest.fixture
def chapter(built: Path, tmp_path: Path) -> Chapter:
    return Project(Path(shutil.copytree(built, tmp_path / "toy"))).chapter(9)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    started = Worker()
    yield started
    started.close()


@pytest.fixture
def checker(chapter: Chapter, worker: Worker) -> Iterator[Checker]:
    with Checker(Project(chapter.root), worker) as checker:
        yield checker


def solutions(chapter: Chapter) -> dict[str, str]:
    """Exercise -> the text of its solved cell."""
    cells = notebooks.cells_of(notebooks.read(chapter.solution))
    return {cell.exercise: cell.without_markers() for cell in cells if cell.exercise}


def write(chapter: Chapter, **texts: str) -> tuple[Cell, ...]:
    """Put texts into the student's notebook (ex_9_1="..."); its cells as a check sees them."""
    notebook = notebooks.read(chapter.notebook)
    for name, text in texts.items():
        cell = next(c for c in notebook["cells"] if c.get("id") == f"ch09-{name.replace('_', '-')}")
        cell["source"] = text
    chapter.notebook.write_text(json.dumps(notebook))
    return collect(chapter, chapter.notebook).cells


def check(checker: Checker, chapter: Chapter, number: str, **texts: str) -> str:
    return checker.exercise(chapter, write(chapter, **texts), number).words


def solve_all(chapter: Chapter) -> None:
    write(chapter, **{f"ex_{n.replace('.', '_')}": text for n, text in solutions(chapter).items()})


def test_build_writes_the_module_from_its_cells(chapter: Chapter):
    text = (chapter.root / "tinyvllm/kernels/toy.cu").read_text()
    assert text.startswith("// Promoted from solutions/09_toy.md")
    assert "halved(halved(x))" in text and "greet" not in text and "//|" not in text
    assert "SOLUTION" not in text


def test_the_student_gets_an_error_line_for_each_kernel(chapter: Chapter):
    cells = notebooks.cells_of(notebooks.read(chapter.notebook))
    text = next(cell.text for cell in cells if cell.exercise == "9.1")
    assert '#error "exercise 9.1: your code goes here"' in text and "*= 2" not in text


def test_a_check_compiles_the_students_kernel_and_unfinished_others_do_not_spoil_it(
    chapter: Chapter, checker: Checker
):
    assert check(checker, chapter, "9.1") == (
        "✗ exercise 9.1 is still to do: put your code where it says `#error`"
    )
    right = solutions(chapter)["9.1"]
    assert check(checker, chapter, "9.1", ex_9_1=right) == "✓ exercise 9.1"
    wrong = right.replace("*= 2", "*= 3")
    said = check(checker, chapter, "9.1", ex_9_1=wrong)
    assert "first difference at index 1: got 3.0, expected 2.0" in said
    broken = solutions(chapter)["9.3"].replace(");", ")")
    assert check(checker, chapter, "9.1", ex_9_1=right, ex_9_3=broken) == "✓ exercise 9.1"


def test_a_fault_found_in_a_check_names_the_line_of_the_students_cell(
    chapter: Chapter, checker: Checker
):
    wrong = solutions(chapter)["9.1"].replace("i < n", "i <= n")
    said = check(checker, chapter, "9.1", ex_9_1=wrong)
    assert "out of bounds: read of x[5], but x has 5 elements" in said
    assert "in the cell of exercise 9.1, line 6: if (i <= n) x[i] *= 2;" in said


def test_a_compile_error_in_a_check_names_the_line_of_the_students_cell(
    chapter: Chapter, checker: Checker
):
    wrong = solutions(chapter)["9.1"].replace("i < n", "i < m")
    said = check(checker, chapter, "9.1", ex_9_1=wrong)
    assert "'m' was not declared" in said or "undeclared identifier 'm'" in said
    assert "in the cell of exercise 9.1, line 6: if (i < m) x[i] *= 2;" in said


def test_a_kernel_that_calls_an_unfinished_one_says_which(chapter: Chapter, checker: Checker):
    stub = (
        "%%cuda\n//| exercise 9.2\n//| promote kernels/toy.cu\n"
        '__device__ float quartered(float x) {\n#error "exercise 9.2: your code goes here"\n}'
    )
    said = check(checker, chapter, "9.3", ex_9_3=solutions(chapter)["9.3"], ex_9_2=stub)
    assert "this needs exercise 9.2 first: it is still to do" in said
    right = solutions(chapter)
    said = check(checker, chapter, "9.3", ex_9_3=right["9.3"], ex_9_2=right["9.2"])
    assert said == "✓ exercise 9.3"


def test_a_kernel_that_is_not_promoted_is_checked_through_the_fixture(
    chapter: Chapter, checker: Checker
):
    right = solutions(chapter)["9.4"]
    assert check(checker, chapter, "9.4", ex_9_4=right) == "✓ exercise 9.4"
    said = check(checker, chapter, "9.4", ex_9_4=right.replace("x[0] = ", "x[2] = "))
    assert "write of x[2], but x has 2 elements (line 7 of the cell of exercise 9.4)" in said


def test_promotion_puts_the_students_kernels_into_the_package(chapter: Chapter, checker: Checker):
    solve_all(chapter)
    mine = solutions(chapter)["9.1"] + "\n// mine"
    write(chapter, ex_9_1=mine)
    said: list[str] = []
    promote(Project(chapter.root), chapter, checker, say=said.append)
    text = (chapter.root / "tinyvllm/kernels/toy.cu").read_text()
    assert said[0] == "tinyvllm/kernels/toy.cu now holds your code"
    assert text.startswith("// Your code, from chapters/09_toy.ipynb") and "// mine" in text


@pytest.fixture
def live(chapter: Chapter, checker: Checker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Course]:
    """The course in a shell that runs cells with ids, as JupyterLab does."""
    monkeypatch.setattr(atexit, "register", lambda *_: None)
    monkeypatch.setenv("JPY_SESSION_NAME", str(chapter.notebook))
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    course = Course(shell, Project(chapter.root))
    course._checker = checker  # the warm one
    course.load()
    yield course
    for event in ("pre_run_cell", "post_run_cell"):
        for callback in list(shell.events.callbacks[event]):
            shell.events.unregister(event, callback)
    InteractiveShell.clear_instance()


def test_a_kernel_typed_and_run_but_never_saved_is_what_is_checked_and_promoted(
    chapter: Chapter, live: Course, capsys: pytest.CaptureFixture[str]
):
    right = solutions(chapter)
    write(chapter, ex_9_2=right["9.2"], ex_9_3=right["9.3"], ex_9_4=right["9.4"])
    given = next(c for c in collect(chapter, chapter.notebook).cells if c.is_cuda)
    run_cell = InteractiveShell.instance().run_cell
    assert run_cell(given.text, cell_id=given.id).success
    assert not run_cell(right["9.1"].replace("i < n", "i < m"), cell_id="ch09-ex-9-1").success
    with pytest.raises(CheckFailed, match=r"failed when it ran: CellCompileError") as caught:
        live.check("9.1")
    assert "line 6: " in str(caught.value)
    assert run_cell(right["9.1"] + "\n// typed", cell_id="ch09-ex-9-1").success
    live.check("9.1")
    assert "✓ exercise 9.1" in capsys.readouterr().out
    live.promote("9")
    assert "// typed" in (chapter.root / "tinyvllm/kernels/toy.cu").read_text()
    assert "// typed" not in chapter.notebook.read_text()


def test_a_stub_that_ran_is_still_to_do_and_not_a_failure(chapter: Chapter, live: Course):
    stub = next(c for c in collect(chapter, chapter.notebook).cells if c.exercise == "9.1")
    result = InteractiveShell.instance().run_cell(stub.text, cell_id=stub.id)
    assert repr(result.error_in_exec) == "NotImplementedError('exercise 9.1')"
    with pytest.raises(CheckFailed, match=r"^✗ exercise 9\.1 is still to do"):
        live.check("9.1")
    with pytest.raises(CheckFailed) as caught:
        live.promote("9")
    assert "still to do: exercise 9.1, exercise 9.2" in str(caught.value)
    assert "failed when it last ran" not in str(caught.value)


def test_an_untouched_chapter_says_what_is_to_do(chapter: Chapter, checker: Checker):
    said: list[str] = []
    assert not run_chapter(Project(chapter.root), chapter, checker, say=said.append)
    assert said[-1] == "0 of 4 exercises done (0 of 7 points)"
    assert all("is still to do" in words for words in said[:-1]), said


@pytest.mark.slow
def test_the_chapter_runs_in_a_notebook_and_its_outputs_hold_nothing_of_the_machine(
    built: Path, tmp_path: Path, worker: Worker
):
    project = Project(Path(shutil.copytree(built, tmp_path / "toy")))
    said: list[str] = []
    assert build(project, project.chapters(), say=said.append) == 0, said
    cells = notebooks.read(project.chapter(9).solution)["cells"]
    outputs = {
        "".join(cell["source"]).split("\n")[0]: "".join(
            text for output in cell["outputs"] for text in output.get("text", [])
        )
        for cell in cells
        if cell["cell_type"] == "code"
    }
    assert outputs["x = torch.arange(5.0)"] == "[0.0, 2.0, 4.0, 6.0, 8.0]\n"
    assert outputs["greet(1, 1, (x[1:],))"] == "thread 0 says 1.0\n"
    assert outputs["%%cuda double_it"] == outputs["%%cuda"] == ""
    assert [outputs[f"%check 9.{i}"] for i in (1, 2, 3, 4)] == [
        f"✓ exercise 9.{i}\n" for i in (1, 2, 3, 4)
    ]
    assert str(Path.home()) not in json.dumps(cells) and os.fspath(tmp_path) not in json.dumps(
        cells
    )
    with Checker(project, worker) as checker:  # the same outputs in a second run, says nbval
        passed = run_chapter(project, project.chapter(9), checker, reference=True, say=said.append)
    assert passed, said
