"""Every wrong answer of every chapter fails its check, with the words that its author promised."""

from collections import Counter

import pytest

from tinyvllm.course.check import Checker
from tinyvllm.course.mutants import Mutant, mutants_of
from tinyvllm.course.project import Chapter, Project
from tinyvllm.course.promote import reference_cells

PROJECT = Project.here()
CHAPTERS = [chapter for chapter in PROJECT.chapters() if chapter.solution.exists()]
MUTANTS = [(chapter, mutant) for chapter in CHAPTERS for mutant in mutants_of(chapter)]
EXERCISES = [
    (chapter, str(cell.exercise))
    for chapter in CHAPTERS
    for cell in reference_cells(chapter)
    if cell.exercise
]


@pytest.fixture(scope="module")
def reference_checker(worker):
    with Checker(PROJECT, worker) as checker:
        yield checker


@pytest.mark.parametrize(
    ("chapter", "mutant"), MUTANTS, ids=[f"{c.name}/{m.file.name}" for c, m in MUTANTS]
)
def test_a_wrong_answer_fails_with_its_words(
    reference_checker: Checker, chapter: Chapter, mutant: Mutant
):
    cells = mutant.put_into(reference_cells(chapter))
    outcome = reference_checker.exercise(chapter, cells, mutant.exercise)
    assert not outcome.passed, f"the check of exercise {mutant.exercise} lets this mistake pass"
    for phrase in mutant.expects:
        assert phrase in outcome.words


@pytest.mark.parametrize(
    ("chapter", "number"), EXERCISES, ids=[f"{c.name}/{number}" for c, number in EXERCISES]
)
def test_the_solution_passes_and_its_stub_does_not(
    reference_checker: Checker, chapter: Chapter, number: str
):
    cells = reference_cells(chapter)
    right = reference_checker.exercise(chapter, cells, number)
    assert right.passed, right.words
    stubs = [cell.stub() if cell.exercise == number else cell for cell in cells]
    outcome = reference_checker.exercise(chapter, stubs, number)
    assert not outcome.passed
    assert f"exercise {number} is still to do" in outcome.words


@pytest.mark.parametrize("chapter", CHAPTERS, ids=[chapter.name for chapter in CHAPTERS])
def test_each_exercise_has_three_wrong_answers(chapter: Chapter):
    count = Counter(mutant.exercise for mutant in mutants_of(chapter))
    numbers = [str(cell.exercise) for cell in reference_cells(chapter) if cell.exercise]
    assert len(numbers) >= 4
    assert {number: count[number] for number in numbers if count[number] < 3} == {}
    assert set(count) <= set(numbers), "a mutant of an exercise that does not exist"
