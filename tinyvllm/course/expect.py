"""What chapter tests compare with, so that a failure teaches.

Each function raises `AssertionError` with one short plain-text message: what was checked, what is
wrong about it (type, shape, dtype, first differing element) and, if the test's author gave one, a
hint at the usual cause. `actual` comes from the student, `expected` from the test.
"""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

# dtype of the student's result -> (rtol, atol): the rounding of a few dozen operations.
TOLERANCES = {
    "float64": (1e-9, 1e-12),
    "float32": (1e-5, 1e-6),
    "float16": (2e-3, 1e-3),
    "bfloat16": (2e-2, 1e-2),
}


def equal(actual: Any, expected: Any, what: str, hint: str = "") -> None:
    """Demand the same type, shape, dtype and elements; NaN equals NaN.

    Arrays, tensors, numbers, strings, bytes, dataclasses and (nested) lists, tuples, dicts and
    sets are compared; the message names the first place that differs.
    """
    problem = _difference(actual, expected)
    if problem:
        raise AssertionError(_message(what, problem, hint))


def close(
    actual: Any,
    expected: Any,
    what: str,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    dtype: Any = None,
    hint: str = "",
) -> None:
    """Demand the same shape and |actual - expected| <= atol + rtol * |expected| everywhere.

    `actual` may have another float type than `expected` unless `dtype` says which it must have;
    without `rtol` and `atol` the tolerance is that of `actual`'s dtype (`TOLERANCES`).
    """
    problem = _not_close(actual, expected, rtol, atol, dtype)
    if problem:
        raise AssertionError(_message(what, problem, hint))


def raises(
    exception: type[BaseException],
    fn: Callable[[], Any],
    what: str,
    *,
    match: str = "",
    hint: str = "",
) -> BaseException:
    """Demand that `fn()` raises `exception` with the regular expression `match` in its words.

    Returns the exception. A stub's NotImplementedError passes through: it says its own words.
    """
    try:
        result = fn()
    except NotImplementedError as error:
        if exception is not NotImplementedError:
            raise
        caught: BaseException = error
    except exception as error:
        caught = error
    except Exception as error:
        problem = (
            f"expected {exception.__name__}, but {type(error).__name__} was raised: {_short(error)}"
        )
        raise AssertionError(_message(what, problem, hint)) from error
    else:
        problem = (
            f"expected {exception.__name__}, but nothing was raised: it returned {_short(result)}"
        )
        raise AssertionError(_message(what, problem, hint))
    if match and not re.search(match, str(caught)):
        problem = f"{type(caught).__name__} was raised, but its words {str(caught)!r} don't say "
        raise AssertionError(_message(what, problem + repr(match), hint))
    return caught


def _message(what: str, problem: str, hint: str) -> str:
    lines = [f"{what}:", *(f"  {line}" for line in problem.splitlines())]
    if hint:
        lines.append(f"  hint: {hint}")
    return "\n".join(lines)


def _short(value: Any, limit: int = 120) -> str:
    """`value` in at most `limit` characters, arrays by shape and dtype."""
    if isinstance(value, torch.Tensor | np.ndarray):
        kind = "torch.Tensor" if isinstance(value, torch.Tensor) else "numpy.ndarray"
        return f"{kind} of shape {tuple(value.shape)}, {value.dtype}"
    text = str(value) if isinstance(value, BaseException) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _kind(value: Any) -> str:
    if isinstance(value, np.generic):
        return f"numpy.{type(value).__name__}"
    module = type(value).__module__.split(".")[0]
    prefix = f"{module}." if module in ("torch", "numpy") else ""
    return prefix + type(value).__name__


def _a(noun: str) -> str:
    return ("an " if noun[:1].lower() in "aeiou" else "a ") + noun


def _same_kind(actual: Any, expected: Any) -> bool:
    if isinstance(expected, bool | np.bool_):
        return isinstance(actual, bool | np.bool_)
    if isinstance(expected, int | np.integer):
        return isinstance(actual, int | np.integer) and not isinstance(actual, bool)
    if isinstance(expected, float | np.floating):
        return isinstance(actual, float | np.floating)
    if isinstance(expected, np.ndarray) and expected.ndim == 0:
        return isinstance(actual, np.ndarray | np.generic)
    return isinstance(actual, type(expected))


def _difference(actual: Any, expected: Any, path: str = "") -> str:
    """Words for the first difference, or ''. `path` is where we are, such as `['a'][2]`."""
    at = f"at {path}: " if path else ""
    if not _same_kind(actual, expected):
        value = "" if actual is None else f" ({_short(actual)})"
        got = "None" if actual is None else _a(_kind(actual))
        words = f"{at}expected {_a(_kind(expected))}, got {got}{value}"
        return words + ("; is a `return` missing?" if actual is None and not path else "")
    if isinstance(expected, torch.Tensor | np.ndarray):
        return at * bool(words := _array_difference(actual, expected)) + words
    if isinstance(expected, dict):
        return _dict_difference(actual, expected, path)
    if dataclasses.is_dataclass(expected) and not isinstance(expected, type):
        names = [field.name for field in dataclasses.fields(expected)]
        pairs = ((getattr(actual, n, None), getattr(expected, n), f"{path}.{n}") for n in names)
        return next(filter(None, (_difference(*pair) for pair in pairs)), "")
    if isinstance(expected, list | tuple):
        if len(actual) != len(expected):
            words = f"{at}has {len(actual)} items, expected {len(expected)}"
            return f"{words}\n  got {_short(actual)}\n  expected {_short(expected)}"
        pairs = ((a, e, f"{path}[{i}]") for i, (a, e) in enumerate(zip(actual, expected)))
        return next(filter(None, (_difference(*pair) for pair in pairs)), "")
    if isinstance(expected, set | frozenset):
        return _set_difference(actual, expected, at)
    if isinstance(expected, str | bytes) and actual != expected:
        where = next(
            (i for i, (a, e) in enumerate(zip(actual, expected)) if a != e),
            min(len(actual), len(expected)),
        )
        unit = "byte" if isinstance(expected, bytes) else "character"
        return (
            f"{at}got {_short(actual)}, expected {_short(expected)}"
            f" (first difference at {unit} {where})"
        )
    if actual == expected or (actual != actual and expected != expected):
        return ""
    return f"{at}got {_short(actual)}, expected {_short(expected)}"


def _dict_difference(actual: dict, expected: dict, path: str) -> str:
    at = f"at {path}: " if path else ""
    if missing := [key for key in expected if key not in actual]:
        return f"{at}has no key {_short(missing[0])} (missing: {len(missing)} of {len(expected)})"
    if extra := [key for key in actual if key not in expected]:
        return f"{at}has the key {_short(extra[0])}, which should not be there"
    pairs = ((actual[key], expected[key], f"{path}[{key!r}]") for key in expected)
    return next(filter(None, (_difference(*pair) for pair in pairs)), "")


def _set_difference(actual: Any, expected: Any, at: str) -> str:
    if missing := expected - actual:
        return f"{at}lacks {_short(min(missing, key=repr))} (missing: {len(missing)})"
    if extra := actual - expected:
        return f"{at}has {_short(min(extra, key=repr))}, which should not be there"
    return ""


def _array_difference(actual: Any, expected: Any) -> str:
    if tuple(actual.shape) != tuple(expected.shape):
        return f"wrong shape: got {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    if actual.dtype != expected.dtype:
        return f"wrong dtype: got {actual.dtype}, expected {expected.dtype}"
    if isinstance(expected, torch.Tensor):
        actual, expected = actual.detach().cpu(), expected.detach().cpu()
        differs = actual != expected
        if expected.is_floating_point() or expected.is_complex():
            differs &= ~(actual.isnan() & expected.isnan())
        differs = differs.numpy()
    else:
        differs = np.asarray(actual != expected)
        if expected.dtype.kind in "fc":
            differs = differs & ~(np.isnan(actual) & np.isnan(expected))
    return _first_difference(differs, actual, expected)


def _first_difference(differs: np.ndarray, actual: Any, expected: Any) -> str:
    """Where and how much: `differs` is bool, of the shape of both arrays."""
    if not differs.any():
        return ""
    index = tuple(int(i) for i in np.argwhere(differs)[0])
    got, want = actual[index].item(), expected[index].item()
    where = f"at index {index if len(index) != 1 else index[0]}: " if index else ""
    words = f"got {got!r}, expected {want!r}"
    if differs.size > 1:
        words = f"first difference {where}{words}\n"
        words += f"{int(differs.sum())} of {differs.size} elements differ"
    if got != got and want == want:
        words += "; NaN: a division by zero, or infinity minus infinity?"
    return words


def _not_close(actual: Any, expected: Any, rtol: Any, atol: Any, dtype: Any) -> str:
    if actual is None:
        return f"expected {_short(expected)}, got None; is a `return` missing?"
    if isinstance(expected, torch.Tensor | np.ndarray) and not isinstance(actual, type(expected)):
        return f"expected {_a(_kind(expected))}, got {_a(_kind(actual))} ({_short(actual)})"
    try:
        got, want = _as_float64(actual), _as_float64(expected)
    except (TypeError, ValueError):
        return f"expected numbers, got {_a(_kind(actual))} ({_short(actual)})"
    if got.shape != want.shape:
        return f"wrong shape: got {got.shape}, expected {want.shape}"
    if dtype is not None and getattr(actual, "dtype", None) != dtype:
        return f"wrong dtype: got {getattr(actual, 'dtype', _kind(actual))}, expected {dtype}"
    name = str(getattr(actual, "dtype", "float64")).removeprefix("torch.")
    default_rtol, default_atol = TOLERANCES.get(name, TOLERANCES["float32"])
    rtol = default_rtol if rtol is None else rtol
    atol = default_atol if atol is None else atol
    differs = ~np.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
    with np.errstate(invalid="ignore"):
        error = np.abs(got - want)
    finite = error[np.isfinite(error)]
    words = _first_difference(differs, got, want)
    if words and finite.size:
        words += f"\nlargest error {finite.max():.3g}; allowed {atol:g} + {rtol:g} * |expected|"
    return words


def _as_float64(value: Any) -> np.ndarray:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().to(torch.float64).numpy()
    return np.asarray(value, dtype=np.float64)
