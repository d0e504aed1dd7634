"""`python -m tinyvllm course`: numbers, exit statuses and sentences, without a notebook."""

import subprocess
import sys

import pytest
from toy_course import REPOSITORY

from tinyvllm.course.cli import main
from tinyvllm.course.journal import recover
from tinyvllm.course.project import Project, UsageError
from tinyvllm.course.sandbox import run_python


@pytest.mark.parametrize(
    ("words", "numbers"),
    [(["7"], [7]), (["07"], [7]), (["7", "8"], [7, 8]), (["7-8"], [7, 8]), (["all"], [7, 8]),
     (["8", "7", "8"], [8, 7])],
)  # fmt: skip
def test_chapters_are_named_in_many_ways(toy: Project, words: list[str], numbers: list[int]):
    assert [chapter.number for chapter in toy.parse_numbers(words)] == numbers


@pytest.mark.parametrize("words", [[], ["9"], ["seven"], ["7x"], ["8-7"], ["-1"], ["7.1"], [""]])
def test_what_names_no_chapter_is_refused(toy: Project, words: list[str]):
    with pytest.raises(UsageError):
        toy.parse_numbers(words)


@pytest.mark.parametrize("command", ["test", "promote", "reset"])
@pytest.mark.parametrize("numbers", [[], ["9"], ["tset"]])
def test_no_number_or_a_wrong_one_ends_with_status_2(
    toy: Project, command: str, numbers: list[str], capsys: pytest.CaptureFixture[str]
):
    assert main([command, *numbers], toy) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("words", [[], ["tset", "7"], ["test", "7", "--fast"]])
def test_a_typo_in_the_command_ends_with_status_2(toy: Project, words: list[str]):
    assert main(words, toy) == 2


def test_help_ends_with_status_0(toy: Project, capsys: pytest.CaptureFixture[str]):
    assert main(["--help"], toy) == 0
    assert "promote N" in capsys.readouterr().out


def test_untouched_chapters_are_not_done(toy: Project, capsys: pytest.CaptureFixture[str]):
    assert main(["test", "7", "8"], toy) == 1
    said = capsys.readouterr().out
    assert "0 of 4 exercises done (0 of 10 points)" in said
    assert "0 of 1 exercises done (0 of 1 points)" in said


def test_promoting_an_untouched_chapter_ends_with_status_1(
    toy: Project, capsys: pytest.CaptureFixture[str]
):
    assert main(["promote", "7"], toy) == 1
    assert "chapter 7 is not promoted; the package is unchanged:" in capsys.readouterr().err


def test_the_module_is_the_command():
    command = [sys.executable, "-m", "tinyvllm.course", "reset"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert (done.returncode, done.stderr.split("?")[0]) == (2, "which chapter")


def test_two_chapters_with_one_number_are_told(toy: Project):
    (toy.root / "solutions/07_other.md").write_text("")
    assert main(["status"], toy) == 1


def test_importing_the_package_finishes_an_interrupted_promotion(toy: Project):
    hook = (REPOSITORY / "tinyvllm/__init__.py").read_text()
    (toy.package / "__init__.py").write_text(hook)
    toy.state.mkdir()
    (toy.state / "promotion.json").write_text('{"toy/double.py": "whole = True\\n"}')
    done = run_python(["-c", "from tinyvllm.toy.double import whole; print(whole)"], toy.root)
    assert done.stdout == "True\n"
    recover(toy)


def test_the_table_of_chapters(toy: Project, capsys: pytest.CaptureFixture[str]):
    assert main(["table"], toy) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| 07 | [doubling: a toy](solutions/07_toy.ipynb) | 60 | 4 | 10 | 0 |"
        " [toy/double.py](tinyvllm/toy/double.py), [kernels/toy.cu](tinyvllm/kernels/toy.cu),"
        " [toy/sizes.py](tinyvllm/toy/sizes.py) |",
        "| 08 | [a next chapter](solutions/08_next.ipynb) | 30 | 1 | 1 | 0 | nothing |",
    ]


def test_a_students_commands_wait_for_no_heavy_import():
    modules = ("check", "cli", "magics", "promote", "reset", "stale", "status", "testing")
    program = "import sys\n" + "".join(f"import tinyvllm.course.{name}\n" for name in modules)
    heavy = ("jupytext", "nbformat", "nbclient", "torch", "numpy", "IPython")
    done = run_python(
        ["-c", f"{program}print([m for m in {heavy} if m in sys.modules])"], REPOSITORY
    )
    assert done.stdout == "[]\n"


def test_a_broken_chapter_does_not_keep_the_next_one_from_being_tested(
    toy: Project, capsys: pytest.CaptureFixture[str]
):
    toy.chapter(7).notebook.unlink()
    assert main(["test", "7", "8"], toy) == 1
    captured = capsys.readouterr()
    assert "chapters/07_toy.ipynb is missing" in captured.err
    assert "0 of 1 exercises done" in captured.out
