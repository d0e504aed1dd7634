"""`build`: deterministic, keeps outputs and people's work, and says what is stale."""

import json
import shutil
from pathlib import Path

import pytest
import toy_course
from checkouts import git
from toy_course import package_texts, set_text, solve

from tinyvllm.course import derive, notebooks
from tinyvllm.course.build import build
from tinyvllm.course.cells import Cell
from tinyvllm.course.check import Checker
from tinyvllm.course.cli import main
from tinyvllm.course.execute import executed as executed_notebook
from tinyvllm.course.project import CourseError, Project
from tinyvllm.course.promote import promote


def generated(project: Project) -> dict[str, bytes]:
    files = [*project.root.glob("chapters/*"), *project.root.glob("solutions/*.ipynb")]
    return {path.name + path.parent.name: path.read_bytes() for path in files}


def rebuilt(project: Project, number: int = 7, **how: bool) -> tuple[int, str]:
    said: list[str] = []
    status = build(project, [project.chapter(number)], say=said.append, **how)
    return status, "\n".join(said)


def edit_source(project: Project, old: str, new: str, number: int = 7) -> None:
    source = project.chapter(number).source
    assert old in source.read_text()
    source.write_text(source.read_text().replace(old, new))


@pytest.fixture(scope="module")
def executed_toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy course as an author builds it: run, and in git."""
    project = toy_course.make(tmp_path_factory.mktemp("executed") / "toy")
    project.chapter(8).source.unlink()
    said: list[str] = []
    assert build(project, project.chapters(), say=said.append) == 0, said
    (project.root / ".gitignore").write_text("__pycache__/\n.tinyvllm/\n")
    git(project.root, "init", "-q")
    git(project.root, "add", "-A")
    git(project.root, "commit", "-q", "-m", "built")
    return project.root


@pytest.fixture
def executed(executed_toy: Path, tmp_path: Path) -> Project:
    return Project(Path(shutil.copytree(executed_toy, tmp_path / "executed")))


def outputs(project: Project) -> list[str]:
    cells = notebooks.read(project.chapter(7).solution)["cells"]
    return ["".join(o.get("text", "")) for cell in cells for o in cell.get("outputs", [])]


def test_a_second_build_changes_nothing(toy: Project):
    before = generated(toy), package_texts(toy)
    assert rebuilt(toy, draft=True) == (0, "")
    assert (generated(toy), package_texts(toy)) == before


def test_two_builds_of_one_source_are_the_same_bytes(toy: Project, tmp_path: Path):
    again = toy_course.make(tmp_path / "again")
    assert build(again, again.chapters(), draft=True, say=lambda _: None) == 0
    assert generated(again) == generated(toy)


def test_a_new_cell_changes_no_other_cells_id(toy: Project):
    before = {c["id"] for c in notebooks.read(toy.chapter(7).notebook)["cells"]}
    edit_source(toy, "How large", "```python\nx = 1\n```\n\nHow large")
    assert rebuilt(toy, draft=True)[0] == 0
    after = {c["id"] for c in notebooks.read(toy.chapter(7).notebook)["cells"]}
    assert len(after - before) == 1 and before < after


def test_the_students_notebook_holds_no_solution_and_no_output(executed: Project):
    text = executed.chapter(7).notebook.read_text()
    assert "SOLUTION" not in text and "return x + x" not in text and "*= 2" not in text
    assert 'NotImplementedError(\\"exercise 7.1\\")' in text and "#error" in text
    assert not any(c.get("outputs") for c in json.loads(text)["cells"])


def test_exercise_and_check_cells_carry_nbgraders_metadata(toy: Project):
    cells = {c["id"]: c for c in notebooks.read(toy.chapter(7).notebook)["cells"]}
    answer = cells["ch07-ex-7-2"]["metadata"]["nbgrader"]
    check = cells["ch07-check-7-2"]["metadata"]["nbgrader"]
    assert (answer["grade_id"], answer["solution"], answer["grade"]) == ("ex-7-2", True, False)
    assert (check["grade_id"], check["grade"], check["points"]) == ("check-7-2", True, 3)
    assert cells["ch07-promote"]["metadata"]["tags"] == ["nbval-skip"]


def test_a_promoted_module_names_its_source(toy: Project):
    first = (toy.package / "toy/double.py").read_text().split("\n")[0]
    assert first == "# Promoted from solutions/07_toy.md: edit it there, then `make build`."


def test_the_solution_is_run_and_its_outputs_are_stored(executed: Project):
    assert outputs(executed) == [
        "✓ exercise 7.1\n",
        "✓ exercise 7.2\n",
        "✓ exercise 7.3\n",
        "✓ exercise 7.4\n",
        "[0 4 8]\n",
    ]
    counts = [
        c.get("execution_count") for c in notebooks.read(executed.chapter(7).solution)["cells"]
    ]
    assert [count for count in counts if count] == list(range(1, 15))


def test_outputs_stay_when_only_prose_changes(executed: Project):
    before = outputs(executed)
    edit_source(executed, "Prose.", "Better prose.")
    status, said = rebuilt(executed)
    assert status == 0 and "running it" not in said
    assert outputs(executed) == before
    assert "Better prose." in executed.chapter(7).notebook.read_text()


def run_alone(toy: Project, code: str) -> list[dict]:
    """The outputs of a notebook of one cell, run as build runs a chapter."""
    chapter, cells = toy.chapter(7), [Cell("code", code)]
    one = derive.notebook(chapter, cells, {}, derive.identities(7, cells))
    (cell,) = executed_notebook(toy, chapter, one, one, {})["cells"]
    return cell["outputs"]


def test_a_notebook_runs_in_the_solutions_folder_without_a_gpu(toy: Project):
    code = "import os\nprint(os.path.basename(os.getcwd()), [os.environ['CUDA_VISIBLE_DEVICES']])"
    assert run_alone(toy, code) == [
        {"name": "stdout", "output_type": "stream", "text": ["solutions ['']\n"]}
    ]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("1 / 0", "07_toy does not run: "),
        ("import warnings\n\nwarnings.warn('careful')", "writes to stderr"),
        ("import tinyvllm\n\nprint(tinyvllm.__file__)", "prints a path of this machine"),
    ],
)
def test_a_notebook_that_fails_or_tells_of_the_machine_is_refused(
    toy: Project, code: str, said: str
):
    with pytest.raises(CourseError, match=said):
        run_alone(toy, code)


def test_code_that_changes_is_run_again_and_its_failure_changes_nothing(
    executed: Project, monkeypatch: pytest.MonkeyPatch
):
    def fails(*_: object) -> None:
        raise CourseError("07_toy does not run: ZeroDivisionError")

    monkeypatch.setattr("tinyvllm.course.execute.executed", fails)
    before = generated(executed), package_texts(executed)
    edit_source(executed, "return x + x", "return 2 * x")
    status, said = rebuilt(executed)
    assert status == 1 and "07_toy: running it" in said and "ZeroDivisionError" in said
    assert (generated(executed), package_texts(executed)) == before


def test_somebodys_work_in_chapters_is_never_overwritten(toy: Project):
    solve(toy.chapter(7), "7.1")
    mine = toy.chapter(7).notebook.read_bytes()
    edit_source(toy, "Prose.", "Better prose.")
    status, said = rebuilt(toy, draft=True)
    assert status == 1 and "it holds somebody's work" in said
    assert toy.chapter(7).notebook.read_bytes() == mine


def test_a_students_module_is_never_overwritten(toy: Project, checker: Checker):
    solve(toy.chapter(7))
    promote(toy, toy.chapter(7), checker, say=lambda _: None)
    mine = package_texts(toy)
    status, said = rebuilt(toy, draft=True)
    assert status == 1 and "holds a student's code" in said
    assert package_texts(toy) == mine


def test_a_module_of_another_chapter_is_never_overwritten(toy: Project):
    source = toy.chapter(8).source
    extra = '```python\n#| promote toy/sizes.py\n"""Mine."""\n```\n\n```python\n%promote 8\n```\n'
    source.write_text(source.read_text() + "\n" + extra)
    status, said = rebuilt(toy, 8, draft=True)
    assert status == 1 and "tinyvllm/toy/sizes.py belongs to another chapter" in said


@pytest.mark.parametrize("how", [(), ("--full",)])
def test_check_is_silent_when_nothing_is_stale(
    executed: Project, how: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    assert main(["build", "--check", *how], executed) == 0
    assert capsys.readouterr().out == ""


def stale_source(project: Project) -> None:
    edit_source(project, "Prose.", "Newer prose.")


def edited_solution(project: Project) -> None:
    chapter = project.chapter(7)
    chapter.solution.write_text(chapter.solution.read_text().replace("Prose.", "Prose?"))


def edited_module(project: Project) -> None:
    (project.package / "toy/double.py").write_text("x = 1\n")


def missing_module(project: Project) -> None:
    (project.package / "kernels/toy.cu").unlink()


def orphan_module(project: Project) -> None:
    text = (project.package / "toy/double.py").read_text()
    (project.package / "orphan.py").write_text(text)
    git(project.root, "add", "tinyvllm/orphan.py")


def untracked_notebook(project: Project) -> None:
    git(project.root, "rm", "-q", "--cached", "chapters/07_toy.ipynb")


STALE = {
    stale_source: "solutions/07_toy.ipynb is older than solutions/07_toy.md",
    edited_solution: "solutions/07_toy.ipynb was edited",
    edited_module: "tinyvllm/toy/double.py is not what build makes",
    missing_module: "tinyvllm/kernels/toy.cu is not what build makes",
    orphan_module: "tinyvllm/orphan.py says that a chapter promotes it, and none does",
    untracked_notebook: "chapters/07_toy.ipynb is not in git",
}


@pytest.mark.parametrize("change", STALE, ids=lambda change: change.__name__)
def test_check_says_what_is_stale(executed: Project, change, capsys: pytest.CaptureFixture[str]):
    change(executed)
    assert main(["build", "--check"], executed) == 1
    assert STALE[change] in capsys.readouterr().out


def test_check_takes_a_students_checkout_as_it_is_and_ci_does_not(
    executed: Project, worker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.delenv("CI", raising=False)
    solve(executed.chapter(7))
    with Checker(executed, worker) as checker:
        promote(executed, executed.chapter(7), checker, say=lambda _: None)
    (executed.root / "chapters/07_toy.backup-1.ipynb").write_text("{}")
    assert main(["build", "--check"], executed) == 0
    monkeypatch.setenv("CI", "true")
    assert main(["build", "--check"], executed) == 1
    said = capsys.readouterr().out
    assert "tinyvllm/toy/double.py holds a student's code" in said
    assert "chapters/07_toy.ipynb is not what build makes" in said


def test_a_half_typed_exercise_is_begun_and_a_checked_one_is_done(
    toy: Project, checker: Checker, capsys: pytest.CaptureFixture[str]
):
    from tinyvllm.course.testing import run_chapter

    solve(toy.chapter(7), "7.1")
    set_text(toy.chapter(7), "#| exercise 7.3", "#| exercise 7.3\nprediction = 1")
    assert not run_chapter(toy, toy.chapter(7), checker)
    assert main(["status"], toy) == 0
    said = capsys.readouterr().out
    assert "1 of 4 exercises done (2 of 10 points)" in said
    assert "1 of 4 exercises done, 1 begun" in said
