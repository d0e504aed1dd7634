"""A small course of two chapters in a temporary checkout, so that tests break it as they like."""

import json
import re
import shutil
from pathlib import Path

import tinyvllm
from tinyvllm.course import notebooks
from tinyvllm.course.project import Chapter, Project

REPOSITORY = Path(tinyvllm.__file__).resolve().parent.parent

TOY = '''---
jupyter:
  tinyvllm:
    title: "doubling: a toy"
    minutes: 60
---

# Chapter 07 · doubling

Prose.

```python
%load_ext tinyvllm.course
```

```python
#| promote toy/double.py
"""Doubling, and what follows from it."""

import numpy as np
```

```python
#| exercise 7.1 points=2
#| promote toy/double.py
def double(x: np.ndarray) -> np.ndarray:
    """Twice `x`."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION
```

```python
%check 7.1
```

```python
#| exercise 7.2 points=3
#| promote toy/double.py
def quadruple(x: np.ndarray) -> np.ndarray:
    """Four times `x`."""
    ### BEGIN SOLUTION
    return double(double(x))
    ### END SOLUTION
```

```python
%check 7.2
```

How large will the sum be?

```python
#| support
SIZE = 4
```

```python
#| exercise 7.3
### BEGIN SOLUTION
prediction = 2 * sum(range(SIZE))
### END SOLUTION
```

```python
%check 7.3
```

```python
%%cuda half
//| promote kernels/toy.cu
// Kernels of the toy chapter.
__device__ float halved(float x) { return x / 2; }
```

```python
%%cuda double_it
//| exercise 7.4 points=4
//| promote kernels/toy.cu
extern "C" __global__ void double_it(float* x) {
    // BEGIN SOLUTION
    x[threadIdx.x] *= 2;
    // END SOLUTION
}
```

```python
%check 7.4
```

```python
#| promote toy/sizes.py
"""Sizes of the toy chapter."""

SIZES = (1, 2, 4)
```

```python
%promote 7
```

```python
from tinyvllm.toy.double import quadruple

print(quadruple(np.arange(3)))
```
'''

TOY_TESTS = """
from pathlib import Path

import numpy as np

from tinyvllm.course import expect


def test_7_1_doubles_each_element():
    from tinyvllm.toy.double import double

    expect.equal(double(np.arange(3)), np.array([0, 2, 4]), "double([0, 1, 2])", "x + x")


def test_7_1_keeps_the_dtype():
    from tinyvllm.toy.double import double

    expect.equal(double(np.ones(2, np.float32)).dtype, np.dtype("float32"), "the dtype")


def test_7_2_four_times():
    from tinyvllm.toy.double import quadruple

    expect.equal(quadruple(np.arange(3)), np.array([0, 4, 8]), "quadruple([0, 1, 2])")


def test_7_3_the_prediction(exercises):
    expect.equal(exercises.prediction, 12, "the prediction")


def test_7_4_the_kernel_doubles():
    import tinyvllm

    text = (Path(tinyvllm.__file__).parent / "kernels/toy.cu").read_text()
    assert "#error" not in text, "the kernel does not compile"
    assert "*= 2" in text, "the kernel does not double"
    assert "halved" in text
"""

NEXT = """---
jupyter:
  tinyvllm:
    title: "a next chapter"
    minutes: 30
---

# Chapter 08 · next

```python
%load_ext tinyvllm.course
```

```python
#| exercise 8.1
from tinyvllm.toy.double import quadruple


def eight_times(x):
    ### BEGIN SOLUTION
    return 2 * quadruple(x)
    ### END SOLUTION
```

```python
%check 8.1
```
"""

NEXT_TESTS = """
import numpy as np

from tinyvllm.course import expect


def test_8_1_eight_times(exercises):
    expect.equal(exercises.eight_times(np.arange(2)), np.array([0, 8]), "eight_times([0, 1])")
"""


# A %%cuda magic that needs no compiler: it binds the text.
CUDA = """
def load_ipython_extension(shell):
    def cuda(line, cell):
        shell.user_ns[line.strip()] = cell

    shell.register_magic_function(cuda, "cell", "cuda")
"""


def make(root: Path) -> Project:
    """Write the sources, the tests and the hand-written part of the package below `root`."""
    package = root / "tinyvllm"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "tinyvllm" / "course", package / "course", ignore=ignore)
    (package / "__init__.py").write_text('"""A toy package."""\n')
    (package / "cuda").mkdir()
    (package / "cuda/__init__.py").write_text(CUDA)
    for folder in ("solutions", "chapters", "tests/chapters"):
        (root / folder).mkdir(parents=True)
    (root / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    shutil.copy(REPOSITORY / "tests/chapters/conftest.py", root / "tests/chapters")
    for name, source, tests in (("07_toy", TOY, TOY_TESTS), ("08_next", NEXT, NEXT_TESTS)):
        (root / f"solutions/{name}.md").write_text(source)
        (root / f"tests/chapters/test_{name}.py").write_text(tests)
    return Project(root)


def cell_with(notebook: dict, line: str) -> dict:
    """The cell of a notebook that has `line` in its text."""
    return next(cell for cell in notebook["cells"] if line in "".join(cell["source"]).split("\n"))


def set_text(chapter: Chapter, line: str, text: str) -> None:
    """Replace the text of the cell that holds `line` in the student's notebook, and save."""
    notebook = notebooks.read(chapter.notebook)
    cell_with(notebook, line)["source"] = text
    chapter.notebook.write_text(json.dumps(notebook))


def solve(chapter: Chapter, *numbers: str, comment: str = "# mine") -> None:
    """Fill exercises (all, if none is named) of the student's notebook with the solutions."""
    notebook = notebooks.read(chapter.notebook)
    for cell in notebooks.cells_of(notebooks.read(chapter.solution)):
        if cell.exercise and (not numbers or cell.exercise in numbers):
            mark = comment.replace("#", "//") if cell.is_cuda else comment
            target = next(c for c in notebook["cells"] if c.get("id") == cell.id)
            target["source"] = f"{cell.without_markers()}\n{mark}"
    chapter.notebook.write_text(json.dumps(notebook))


def package_texts(project: Project) -> dict[str, str]:
    """Every file of the package, to see that nothing has changed."""
    files = project.package.rglob("*.*")
    return {str(f): f.read_text() for f in files if f.suffix in (".py", ".cu")}


def words(error: BaseException) -> str:
    """The words of an error in one line."""
    return re.sub(r"\s+", " ", str(error))
