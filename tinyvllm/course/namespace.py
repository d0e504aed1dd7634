"""The fixture `exercises`: what the cells of a chapter define, for tests of cells that no module
holds (predictions, faults to find, experiments).

`exercises.predict` runs the chapter's support cells, the cell that defines `predict` and the cells
that this one needs, in the order of the notebook, each once. Other cells don't run, so an
unfinished exercise doesn't spoil the check of another. Names of promoted cells are those of the
module, so that a class is the same class in a test and in a cell.
"""

import ast
import importlib
import linecache
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from tinyvllm.course.cells import Cell
from tinyvllm.course.validate import is_python, plain_python


def defined_names(tree: ast.Module) -> set[str]:
    """Names that running the module would bind at its top level."""
    names: set[str] = set()
    for node in _top_level(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def used_names(tree: ast.Module) -> set[str]:
    """Names that are read anywhere in the module, function bodies included."""
    loads = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return {node.id for node in loads if isinstance(node.ctx, ast.Load)}


def _top_level(tree: ast.AST):
    """All nodes outside the bodies of functions, classes, lambdas and comprehensions."""
    scopes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    scopes += (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    for node in ast.iter_child_nodes(tree):
        yield node
        if not isinstance(node, scopes):
            yield from _top_level(node)


class Exercises:
    """The namespace of a chapter's exercise and support cells; cells run when they are needed."""

    def __init__(self, cells: Sequence[Cell]):
        self._cells: list[tuple[Cell, ast.Module | SyntaxError]] = []
        self._promoted: list[str] = []
        for cell in cells:
            if cell.promote:
                if cell.promote.endswith(".py") and cell.promote not in self._promoted:
                    self._promoted.append(cell.promote)
            elif cell.kind == "code" and (cell.exercise or cell.is_support):
                self._cells.append((cell, _parse(cell)))
        self._ran: set[int] = set()
        self._namespace: dict[str, Any] = {"__name__": "__main__"}
        self._loaded_modules = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._load_modules()
        self._run_for(name)
        try:
            return self._namespace[name]
        except KeyError:
            raise AssertionError(self._not_found(name)) from None

    def _load_modules(self) -> None:
        if not self._loaded_modules:
            self._loaded_modules = True
            for path in self._promoted:
                module = importlib.import_module("tinyvllm." + path[:-3].replace("/", "."))
                self._namespace |= _public(module)

    def _run_for(self, name: str) -> None:
        """Run what defines `name`, with everything that it needs."""
        needed: set[int] = set()
        wanted = [i for i, (cell, _) in enumerate(self._cells) if cell.is_support]
        wanted += self._definers(name)
        while wanted:
            i = wanted.pop()
            if i in needed:
                continue
            needed.add(i)
            tree = self._cells[i][1]
            if isinstance(tree, ast.Module):
                wanted += [k for used in used_names(tree) for k in self._definers(used)]
        for i in sorted(needed - self._ran):
            self._run(i)

    def _definers(self, name: str) -> list[int]:
        return [
            i
            for i, (_, tree) in enumerate(self._cells)
            if isinstance(tree, ast.Module) and name in defined_names(tree)
        ]

    def _run(self, i: int) -> None:
        cell, tree = self._cells[i]
        if isinstance(tree, SyntaxError):
            return
        self._ran.add(i)
        if cell.is_cuda:
            _run_cuda(cell, self._namespace)
            return
        filename = f"<{cell.label}>"
        text = plain_python(cell.text)
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), self._namespace)

    def _not_found(self, name: str) -> str:
        broken = [
            f"{cell.label}: {tree.msg} (line {tree.lineno})"
            for cell, tree in self._cells
            if isinstance(tree, SyntaxError)
        ]
        words = f"no cell of the chapter defines `{name}`: was it renamed or deleted?"
        return words + ("\n  not Python: " + "; ".join(broken) if broken else "")


def _parse(cell: Cell) -> ast.Module | SyntaxError:
    """The cell's tree; a CUDA cell counts as a cell that binds its kernels."""
    try:
        if cell.is_cuda:
            return ast.parse("".join(f"{name} = None\n" for name in _cuda_names(cell)))
        return ast.parse(plain_python(cell.text) if is_python(cell) else "")
    except SyntaxError as error:
        return error


def _cuda_names(cell: Cell) -> list[str]:
    """What the magic `%%cuda` binds; SyntaxError for a first line that makes no sense."""
    from tinyvllm.cuda.cell_errors import CellError
    from tinyvllm.cuda.notebook import CudaCell

    try:
        return list(CudaCell.read(cell.text).names())
    except CellError as error:
        raise SyntaxError(str(error), ("", 1, 1, "")) from None


def _run_cuda(cell: Cell, namespace: dict[str, Any]) -> None:
    """Bind what the magic `%%cuda` binds."""
    from tinyvllm.cuda.notebook import CudaCell, compile_cell

    namespace.update(compile_cell(CudaCell.read(cell.text)))


def _public(module: ModuleType) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if not name.startswith("__")}
