"""`tinyvllm.course.expect`: what a student reads when a check fails."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from tinyvllm.course import expect

NAN = float("nan")


@dataclass
class Info:
    dtype: str
    shape: tuple[int, ...]


SAME: list[tuple[Any, Any]] = [
    (3, 3),
    (np.int64(3), 3),
    (NAN, NAN),
    ("a", "a"),
    (b"a", b"a"),
    ([1, (2, 3)], [1, (2, 3)]),
    ({"a": np.ones(2)}, {"a": np.ones(2)}),
    ({1, 2}, {2, 1}),
    (np.array([1.0, NAN]), np.array([1.0, NAN])),
    (torch.tensor([1.0, NAN]).bfloat16(), torch.tensor([1.0, NAN]).bfloat16()),
    (torch.ones(0), torch.ones(0)),
    (np.float32(1), np.array(1, np.float32)),
    (Info("F32", (2,)), Info("F32", (2,))),
]

DIFFERENT: list[tuple[Any, Any, str]] = [
    (None, 3, "expected an int, got None; is a `return` missing?"),
    (True, 1, "expected an int, got a bool (True)"),
    (1, 1.0, "expected a float, got an int (1)"),
    ([1], torch.tensor([1]), "expected a torch.Tensor, got a list ([1])"),
    (np.ones(1), torch.ones(1), "got a numpy.ndarray (numpy.ndarray of shape (1,), float64)"),
    (np.ones(3), np.ones((3, 1)), "wrong shape: got (3,), expected (3, 1)"),
    (np.ones(3), np.ones(3, np.float32), "wrong dtype: got float64, expected float32"),
    (torch.ones(2), torch.ones(2).bfloat16(), "got torch.float32, expected torch.bfloat16"),
    (np.array([[1, 2], [3, 9]]), np.array([[1, 2], [3, 4]]), "at index (1, 1): got 9, expected 4"),
    (torch.tensor([1, 0, 0]), torch.tensor([1, 2, 3]), "2 of 3 elements differ"),
    (torch.tensor([NAN]), torch.tensor([1.0]), "NaN: a division by zero"),
    ([1, (2, 3)], [1, (2, 4)], "at [1][1]: got 3, expected 4"),
    ([1], [1, 2], "has 1 items, expected 2"),
    ({"a": 1}, {"a": 1, "b": 2}, "has no key 'b'"),
    ({"a": 1, "b": 2}, {"a": 1}, "has the key 'b', which should not be there"),
    ({"a": [1]}, {"a": [2]}, "at ['a'][0]: got 1, expected 2"),
    ({1}, {1, 2}, "lacks 2"),
    ("abc", "abd", "first difference at character 2"),
    (b"ab", b"abc", "first difference at byte 2"),
    (Info("F32", (2,)), Info("BF16", (2,)), "at .dtype: got 'F32', expected 'BF16'"),
]


@pytest.mark.parametrize(("actual", "expected"), SAME)
def test_equal_things_are_equal(actual: Any, expected: Any):
    expect.equal(actual, expected, "the thing")


@pytest.mark.parametrize(("actual", "expected", "said"), DIFFERENT)
def test_a_difference_is_told_in_words(actual: Any, expected: Any, said: str):
    with pytest.raises(AssertionError) as caught:
        expect.equal(actual, expected, "the thing", "the usual cause")
    first, *_, last = str(caught.value).splitlines()
    assert (first, last) == ("the thing:", "  hint: the usual cause")
    assert said in str(caught.value)


def test_close_allows_the_rounding_of_the_dtype():
    exact = np.linspace(1, 2, 5)
    expect.close(exact.astype(np.float32), exact, "floats")
    expect.close(torch.tensor(exact).bfloat16(), torch.tensor(exact), "bfloat16")
    expect.close(0.1 + 0.2, 0.3, "numbers")


@pytest.mark.parametrize(
    ("actual", "said"),
    [
        (np.array([1.0, 2.1]), "at index 1: got 2.1, expected 2.0"),
        (np.array([1.0, 2.1]), "largest error 0.1; allowed"),
        (np.array([[1.0, 2.0]]), "wrong shape: got (1, 2), expected (2,)"),
        ([1.0, 2.0], "expected a numpy.ndarray, got a list"),
        (None, "is a `return` missing?"),
        (np.array([1.0, NAN]), "NaN: a division by zero"),
        (np.array(["a", "b"]), "expected numbers"),
    ],
)
def test_what_is_not_close_is_told_in_words(actual: Any, said: str):
    with pytest.raises(AssertionError) as caught:
        expect.close(actual, np.array([1.0, 2.0]), "the thing")
    assert said in str(caught.value)


def test_close_checks_the_dtype_when_told():
    expect.close(torch.ones(2), torch.ones(2), "the thing", dtype=torch.float32)
    with pytest.raises(AssertionError, match="wrong dtype"):
        expect.close(torch.ones(2), torch.ones(2), "the thing", dtype=torch.bfloat16)


def test_raises_returns_the_exception():
    error = expect.raises(KeyError, lambda: {}["a"], "the look-up", match="'a'")
    assert isinstance(error, KeyError)


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (lambda: 3, "expected ValueError, but nothing was raised: it returned 3"),
        (lambda: {}["a"], "expected ValueError, but KeyError was raised: 'a'"),
        (lambda: int("x"), "its words \"invalid literal for int() with base 10: 'x'\" don't say"),
    ],
)
def test_what_was_not_raised_is_told_in_words(fn: Any, said: str):
    with pytest.raises(AssertionError) as caught:
        expect.raises(ValueError, fn, "the call", match="too long")
    assert said in str(caught.value)


def test_raises_lets_a_stub_say_its_own_words():
    def stub() -> None:
        raise NotImplementedError("exercise 1.2")

    with pytest.raises(NotImplementedError, match=r"exercise 1\.2"):
        expect.raises(Exception, stub, "the call")
