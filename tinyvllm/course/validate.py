"""What a chapter must be before build writes anything: cells, exercises and tests fit together."""

import ast
import re
from pathlib import Path

from tinyvllm.course.cells import Cell, CellError, exercise_key
from tinyvllm.course.derive import checked_exercise, is_promotion
from tinyvllm.course.ownership import is_hand_written_folder
from tinyvllm.course.project import Chapter, CourseError
from tinyvllm.course.source import Content

_TEST = re.compile(r"test_(\d+)_(\d+)_\w+")


def tested_exercises(tests: Path) -> dict[str, list[str]]:
    """Exercise number -> names of its test functions, in the order of the file."""
    try:
        tree = ast.parse(tests.read_text(encoding="utf-8"), str(tests))
    except FileNotFoundError:
        return {}
    except SyntaxError as error:
        raise CourseError(f"{tests.name}, line {error.lineno}: {error.msg}") from None
    found: dict[str, list[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and (match := _TEST.fullmatch(node.name)):
            found.setdefault(f"{int(match[1])}.{int(match[2])}", []).append(node.name)
    return found


def problems_of(content: Content) -> list[str]:
    """Everything that is wrong with the cells, and with exercises against tests."""
    chapter, cells = content.chapter, content.cells
    problems: list[str] = []
    for cell in cells:
        try:
            problems += _cell_problems(chapter, cell)
        except CellError as error:
            problems.append(str(error))
    if problems:
        return problems
    problems += _order_problems(chapter, cells)
    problems += _module_problems(chapter, cells)
    return problems


def test_problems_of(content: Content) -> list[str]:
    """Exercises without tests, and tests without an exercise."""
    chapter = content.chapter
    exercises = {cell.exercise for cell in content.cells if cell.exercise}
    tested = tested_exercises(chapter.tests)
    where = chapter.shown(chapter.tests)
    missing = [f"exercise {number} has no test_{number.replace('.', '_')}_* in {where}"
               for number in sorted(exercises - tested.keys(), key=exercise_key)]  # fmt: skip
    orphans = [f"{where}: {tested[number][0]} tests exercise {number}, which does not exist"
               for number in sorted(tested.keys() - exercises, key=exercise_key)]  # fmt: skip
    return missing + orphans


def is_python(cell: Cell) -> bool:
    """True for a code cell without a cell magic."""
    return cell.kind == "code" and not cell.magic


def plain_python(text: str) -> str:
    """`text` with IPython's %magics and !commands made into `pass`, line for line."""
    return re.sub(r"^([ \t]*)[%!].*$", r"\1pass", text, flags=re.MULTILINE)


def _cell_problems(chapter: Chapter, cell: Cell) -> list[str]:
    if cell.kind != "code":
        return []
    problems = []
    marked = "BEGIN SOLUTION" in cell.text or "END SOLUTION" in cell.text
    if cell.exercise:
        _ = cell.options
        if int(cell.exercise.split(".")[0]) != chapter.number:
            problems.append(f"exercise {cell.exercise} stands in chapter {chapter.number}")
        stub = cell.stub()
        if stub.text == cell.text:
            problems.append(f"exercise {cell.exercise} has no solution between its two markers")
        elif is_python(cell):
            problems += _syntax(stub, f"the stub of exercise {cell.exercise}")
    elif marked:
        problems.append(f"solution markers, but no `#| exercise`: {cell.label}")
    if is_python(cell):
        problems += _syntax(cell, cell.label)
        last = cell.text.rstrip().rsplit("\n", 1)[-1]
        if last.endswith(";"):
            problems.append(
                f"{cell.label} ends in `;`, which hides nothing under nbval: assign the"
                " result (`_ = ...`) or end with plt.show()"
            )
    if cell.promote:
        if is_hand_written_folder(cell.promote):
            problems.append(f"{cell.promote} lies in a folder that is written by hand")
        if plain_python(cell.body) != cell.body and not cell.is_cuda:
            problems.append(f"{cell.label} goes into {cell.promote}, but holds a %magic")
    return problems


def _syntax(cell: Cell, label: str) -> list[str]:
    try:
        ast.parse(plain_python(cell.text))
    except SyntaxError as error:
        return [f"{label}: {error.msg}, line {error.lineno} of the cell"]
    return []


def _order_problems(chapter: Chapter, cells: tuple[Cell, ...]) -> list[str]:
    """Numbers of exercises, their check cells, the first and the last code cell."""
    n, problems = chapter.number, []
    code = [cell for cell in cells if cell.kind == "code"]
    exercises = [cell.exercise for cell in code if cell.exercise]
    if exercises != [f"{n}.{i}" for i in range(1, len(exercises) + 1)]:
        problems.append(f"exercises must be {n}.1, {n}.2, ... once each and in order: {exercises}")
    if not code or not code[0].text.startswith("%load_ext tinyvllm.course"):
        problems.append("the first code cell must begin with `%load_ext tinyvllm.course`")
    pending = None
    for cell in code:
        if cell.exercise:
            if pending:
                problems.append(f"exercise {pending} has no `%check {pending}` cell after it")
            pending = cell.exercise
        elif checked := checked_exercise(cell):
            if checked != pending:
                problems.append(f"`%check {checked}` does not follow exercise {checked}")
            pending = None
    if pending:
        problems.append(f"exercise {pending} has no `%check {pending}` cell after it")
    promoted = any(cell.promote for cell in code)
    promotions = [cell.text.strip() for cell in code if is_promotion(cell)]
    if promotions != ([f"%promote {n}"] if promoted else []):
        wanted = f"one cell `%promote {n}`" if promoted else "no %promote: nothing is promoted"
        problems.append(f"there must be {wanted}")
    return problems


def _module_problems(chapter: Chapter, cells: tuple[Cell, ...]) -> list[str]:
    problems, seen = [], set()
    for cell in cells:
        path = cell.promote
        if not path or path in seen:
            continue
        seen.add(path)
        if path.endswith(".py") and not cell.body.lstrip("ru").startswith(('"""', "'''")):
            problems.append(f"the first cell of {path} must begin with the module's docstring")
    return problems
