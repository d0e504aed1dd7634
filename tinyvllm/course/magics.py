"""`%check 5.2` and `%promote 5`, from `%load_ext tinyvllm.course`.

The extension also switches autoreload on, so that an open notebook follows a promotion, and starts
the process that runs checks while the reader is still reading.
"""

import atexit
import os
from pathlib import Path
from typing import Any

from tinyvllm.course import collect as collecting
from tinyvllm.course import journal
from tinyvllm.course.cells import Cell
from tinyvllm.course.check import Checker
from tinyvllm.course.collect import Runs, collect, exercise_problems
from tinyvllm.course.project import Chapter, CourseError, Project, UsageError
from tinyvllm.course.promote import promote
from tinyvllm.course.results import remember


class CheckFailed(Exception):
    """What `%check` and `%promote` raise in a notebook: words, and no traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class Course:
    """The state of one kernel: its runs of cells, and the process for its checks."""

    def __init__(self, shell: Any, project: Project):
        self._shell, self._project = shell, project
        self._checker = Checker(project)
        self._runs = Runs()
        self._started = 0.0

    def load(self) -> None:
        journal.recover(self._project)
        shell = self._shell
        shell.run_line_magic("load_ext", "autoreload")
        shell.run_line_magic("autoreload", "2")
        shell.events.register("pre_run_cell", self._before)
        shell.events.register("post_run_cell", self._after)
        shell.register_magic_function(self.check, "line", "check")
        shell.register_magic_function(self.promote, "line", "promote")
        if "cuda" not in shell.magics_manager.magics["cell"]:
            shell.register_magic_function(self.cuda, "cell", "cuda")
        self._checker.warm()
        atexit.register(self._checker.close)

    def check(self, line: str) -> None:
        """%check 5.2: is exercise 5.2 right?"""
        with _in_words():
            number, chapter = self._exercise(line.strip())
            collected = collect(chapter, self._notebook(chapter), self._runs)
            if problems := exercise_problems(collected.cells, [number], chapter):
                raise CourseError("\n".join(problems))
            label = f"the cell of exercise {number}"
            cell = next(cell for cell in collected.cells if cell.exercise == number)
            if label in collected.edited:
                raise CourseError(f"{label} was edited after it last ran: run it, then check")
            if label in collected.failed and not cell.is_stub:
                raise CourseError(
                    f"✗ exercise {number}: {label} failed when it ran: {collected.failed[label]}"
                )
            outcome = self._checker.exercise(chapter, collected.cells, number)
            remember(self._project, cell, outcome.passed)
            if not outcome.passed:
                raise CourseError(outcome.words)
            print(outcome.words)

    def promote(self, line: str) -> None:
        """%promote 5: put the code of chapter 5 into the package."""
        with _in_words():
            (chapter, *others) = self._project.parse_numbers(line.split())
            if others:
                raise UsageError("promote one chapter at a time: its notebook is this one")
            notebook = self._notebook(chapter)
            promote(self._project, chapter, self._checker, notebook=notebook, runs=self._runs)

    def cuda(self, line: str, cell: str) -> Any:
        """%%cuda rms_norm: compile the cell and bind its kernel."""
        # tinyvllm.cuda imports torch: not before a notebook has a kernel.
        import tinyvllm.cuda

        tinyvllm.cuda.load_ipython_extension(self._shell)
        return self._shell.run_cell_magic("cuda", line, cell)

    def _exercise(self, number: str) -> tuple[str, Chapter]:
        try:
            exercise = Cell("code", f"#| exercise {number}").exercise
        except CourseError:
            exercise = None
        if not exercise or exercise != number:
            raise UsageError("%check takes the number of an exercise, such as: %check 5.2")
        return exercise, self._project.chapter(int(exercise.split(".")[0]))

    def _notebook(self, chapter: Chapter) -> Path:
        """The notebook that this kernel runs: JupyterLab says which, elsewhere the folder does."""
        session = os.environ.get("JPY_SESSION_NAME", "")
        if not session.endswith(".ipynb"):
            session = str(self._shell.user_ns.get("__vsc_ipynb_file__", ""))  # VS Code
        if not session:
            inside = Path.cwd().name == "solutions"
            return chapter.solution if inside else chapter.notebook
        opened = Path(session).resolve()
        for path in (chapter.notebook, chapter.solution):
            if opened == path.resolve():
                return path
        raise CourseError(
            f"this notebook is {opened.parent.name}/{opened.name}, but chapter {chapter.number} is"
            f" {chapter.shown(chapter.notebook)} in {self._project.root}: open that one, or give"
            " this one its name back and restart the kernel"
        )

    def _before(self, info: Any) -> None:
        self._started = collecting.now()

    def _after(self, result: Any) -> None:
        error = result.error_before_exec or result.error_in_exec
        words = f"{type(error).__name__}: {error}" if error is not None else ""
        identity = getattr(result.info, "cell_id", None)
        self._runs.record(result.info.raw_cell, identity, words, self._started)


class _in_words:
    """Turns the course's own errors into ones that a notebook shows as their words alone."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, CourseError):
            raise CheckFailed(str(error)) from None


def load(shell: Any) -> None:
    """Switch the course on in this kernel; a second %load_ext changes nothing."""
    if getattr(shell, "_tinyvllm_course", None) is None:
        course = Course(shell, Project.here())
        course.load()
        shell._tinyvllm_course = course
