"""What build refuses in the source of a chapter, with the reason."""

from pathlib import Path

import pytest
import toy_course

from tinyvllm.course.build import checked_content, refuse_what_ruff_would
from tinyvllm.course.modules import module_texts
from tinyvllm.course.project import CourseError, Project
from tinyvllm.course.source import SourceError

AFTER_TITLE = "Prose.\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return toy_course.make(tmp_path_factory.mktemp("sources") / "toy")


def problems(project: Project, old: str, new: str) -> str:
    """What is wrong with the toy chapter after `old` was replaced by `new` in its source."""
    assert old in toy_course.TOY
    chapter = project.chapter(7)
    chapter.source.write_text(toy_course.TOY.replace(old, new, 1))
    with pytest.raises(SourceError) as caught:
        checked_content(chapter)
    return str(caught.value)


def test_the_toy_chapter_is_accepted(project: Project):
    project.chapter(7).source.write_text(toy_course.TOY)
    content = checked_content(project.chapter(7))
    assert (content.title, content.minutes, len(content.cells)) == ("doubling: a toy", 60, 17)


@pytest.mark.parametrize(
    ("addition", "said"),
    [
        ("````text\nfour\n````\n", "a fence of four backticks swallows"),
        ("```text\nnot closed\n", "not closed"),
        ("```python\nx = 1\n", "not closed"),
        ("```cuda\n__global__ void k() {}\n```\n", "```cuda is prose, not a cell"),
        ("```cpp\nint x;\n```\n", "write ```cpp prose"),
        ("```c++\nint x;\n```\n", "a fence that is not named python becomes a cell"),
        ("```bash\nls\n```\n", "a fence that is not named python becomes a cell"),
        ("<!-- #region -->\n\n<!-- #endregion -->\n", "an empty markdown cell"),
        ("```python\n```\n", "an empty code cell"),
        ('```python\nx = """\n```\n"""\n```\n', "a line of code begins with ```"),
        ('```python points="3"\nx = 1\n```\n', "tags and no other metadata, not ['points']"),
        ('```python tags="nbval-skip"\nx = 1\n```\n', "'nbval-skip' is not of type 'array'"),
        ("```python\nplot = 1;\n```\n", "ends in `;`"),
        ("```python\nx = (\n```\n", "'(' was never closed, line 1 of the cell"),
        ("```python\n### BEGIN SOLUTION\n```\n", "solution markers, but no `#| exercise`"),
        ("```python\n#| exercise 7.1\nx = 1\n```\n", "has no solution between its two markers"),
        ("```python\n#| promote course/a.py\nx = 1\n```\n", "a folder that is written by hand"),
        ("```python\n#| promote a.py\nx = 1\n```\n", "must begin with the module's docstring"),
        ("```python\n#| promote a.py\n%time 1\n```\n", "goes into a.py, but holds a %magic"),
    ],
)
def test_what_would_be_mangled_or_wrong_is_refused(project: Project, addition: str, said: str):
    assert said in problems(project, AFTER_TITLE, f"{AFTER_TITLE}\n{addition}\n")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("minutes: 60", "minutes: sixty", "`minutes` in the front matter must be int, not 'sixty'"),
        ("    minutes: 60\n", "", "the front matter has no `minutes`"),
        ("minutes: 60", "minutes: 60\n    author: me", "has an unknown key `author`"),
        ("%load_ext tinyvllm.course", "import numpy", "first code cell must begin with `%load_ext"),
        ("```python\n%check 7.2\n```\n", "", "exercise 7.2 has no `%check 7.2` cell after it"),
        ("%check 7.2", "%check 7.1", "`%check 7.1` does not follow exercise 7.1"),
        ("#| exercise 7.2", "#| exercise 7.1", "once each and in order"),
        ("#| exercise 7.3", "#| exercise 8.3", "exercise 8.3 stands in chapter 7"),
        ("#| exercise 7.3", "#| exercise 7.5", "once each and in order"),
        ("%promote 7", "pass", "there must be one cell `%promote 7`"),
        ("    return x + x", "    return (x", "the cell of exercise 7.1: '(' was never closed"),
        ("points=2", "points=two", "points=3 and seconds=60 may stand here"),
    ],
)
def test_a_chapter_that_does_not_fit_together_is_refused(
    project: Project, old: str, new: str, said: str
):
    assert said in problems(project, old, new)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("def test_7_3_the_prediction", "def helper", "exercise 7.3 has no test_7_3_*"),
        ("def test_7_3_the_prediction", "def test_7_9_it", "7_9_it tests exercise 7.9, which does"),
    ],
)
def test_exercises_and_tests_must_match(project: Project, old: str, new: str, said: str):
    tests = project.chapter(7).tests
    tests.write_text(toy_course.TOY_TESTS.replace(old, new))
    try:
        assert said in problems(project, "Prose.", "Prose!")
    finally:
        tests.write_text(toy_course.TOY_TESTS)


def test_all_reasons_are_told_at_once_with_their_lines(project: Project):
    said = problems(project, AFTER_TITLE, "```bash\nls\n```\n\n```python\nx = 1;\n```\n")
    assert "solutions/07_toy.md: line 11: a fence that is not named python" in said


def test_python_that_ruff_would_change_is_refused(project: Project):
    text = "x = {'a':1}\n"
    with pytest.raises(CourseError, match=r"tinyvllm/a\.py would not pass `ruff format`"):
        refuse_what_ruff_would(project, {"a.py": text})
    with pytest.raises(CourseError, match="`ruff check`"):
        refuse_what_ruff_would(project, {"a.py": "import os\n"})


def test_promoted_python_of_the_toy_passes_ruff(project: Project):
    project.chapter(7).source.write_text(toy_course.TOY)
    modules = module_texts(checked_content(project.chapter(7)).cells, "note")
    assert sorted(modules) == ["kernels/toy.cu", "toy/double.py", "toy/sizes.py"]
    refuse_what_ruff_would(project, modules)


def test_a_missing_source_is_told(project: Project, tmp_path: Path):
    chapter = toy_course.make(tmp_path / "toy").chapter(8)
    chapter.source.unlink()
    with pytest.raises(CourseError, match=r"08_next\.md is missing"):
        checked_content(chapter)
