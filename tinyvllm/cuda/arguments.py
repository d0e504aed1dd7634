"""Turns Python's arguments into a kernel's: every mistake is a sentence that names the parameter,
before any launch.

A pointer takes an array (torch, numpy, cupy) of its element type, contiguous and on the kernel's
side, or None for a null pointer. A scalar takes a Python or numpy number, converted to the
parameter's own type: `float eps` never receives a double. The types come from the compiler
(host/signature.h), the names from the text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

# code in host/signature.h -> C++ name, numpy type of a scalar, torch dtypes and numpy kinds+sizes
# of an array
_TYPES: dict[int, tuple[str, type | None, tuple, tuple[str, ...]]] = {
    2: ("bool", np.bool_, (torch.bool,), ("b1",)),
    3: ("char", np.int8, (torch.int8,), ("i1",)),
    4: ("unsigned char", np.uint8, (torch.uint8, torch.bool), ("u1", "b1")),
    5: ("short", np.int16, (torch.int16,), ("i2",)),
    6: (
        "unsigned short",
        np.uint16,
        (torch.uint16, torch.int16, torch.bfloat16, torch.float16),
        ("u2", "i2", "f2"),
    ),
    7: ("int", np.int32, (torch.int32,), ("i4",)),
    8: ("unsigned int", np.uint32, (torch.uint32, torch.int32), ("u4", "i4")),
    9: ("long long", np.int64, (torch.int64,), ("i8",)),
    10: ("unsigned long long", np.uint64, (torch.uint64, torch.int64), ("u8", "i8")),
    11: ("__half", None, (torch.float16,), ("f2",)),
    12: (
        "__nv_bfloat16",
        None,
        (torch.bfloat16, torch.uint16),
        ("u2",),
    ),  # numpy holds bfloat16 as bits
    13: ("float", np.float32, (torch.float32,), ("f4",)),
    14: ("double", np.float64, (torch.float64,), ("f8",)),
}
_EXPECTED_DTYPE = {
    2: "bool",
    3: "int8",
    4: "uint8",
    5: "int16",
    6: "uint16",
    7: "int32",
    8: "uint32",
    9: "int64",
    10: "uint64",
    11: "float16",
    12: "bfloat16",
    13: "float32",
    14: "float64",
}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel. `bytes` and `alignment` are those of the value, or of what is
    pointed to."""

    name: str
    position: int
    pointer: bool
    const: bool
    code: int
    bytes: int
    alignment: int

    @cached_property
    def label(self) -> str:
        return f"argument {self.position + 1}, `{self.name}`,"

    @cached_property
    def declaration(self) -> str:
        kind = (
            _TYPES[self.code][0]
            if self.code in _TYPES
            else "void"
            if self.code == 1
            else f"{self.bytes}-byte struct"
        )
        return f"{'const ' if self.const else ''}{kind}{'*' if self.pointer else ''}"

    @cached_property
    def torch_dtypes(self) -> tuple | None:
        """The dtypes an array may have; None: any."""
        return _TYPES[self.code][2] if self.code in _TYPES else None

    @cached_property
    def numpy_kinds(self) -> tuple[str, ...] | None:
        return _TYPES[self.code][3] if self.code in _TYPES else None


def parameters_of(table: list[int], names: tuple[str, ...]) -> tuple[Parameter, ...]:
    """Parameters from a table of host/signature.h, five numbers each, and their names in the
    text."""
    count = len(table) // 5
    if len(names) != count:  # made by a macro
        names = tuple(f"arg{i}" for i in range(count))
    rows = (table[5 * i : 5 * i + 5] for i in range(count))
    return tuple(
        Parameter(names[i], i, bool(r[0]), bool(r[1]), r[2], r[3], r[4]) for i, r in enumerate(rows)
    )


@dataclass(frozen=True, slots=True)
class ArrayArgument:
    """What a pointer argument points to. `where` is "cpu" or "cuda:0"."""

    parameter: Parameter
    address: int
    bytes: int
    element_bytes: int
    where: str


def side_of(args: tuple) -> str | None:
    """ "cpu" or "cuda" by the first array among the arguments; None if there is none."""
    for a in args:
        if isinstance(a, torch.Tensor):
            return a.device.type
        if isinstance(a, np.ndarray):
            return "cpu"
        if hasattr(a, "__cuda_array_interface__"):
            return "cuda"
    return None


def check_count(kernel: str, parameters: tuple[Parameter, ...], args: tuple) -> None:
    if not isinstance(args, (tuple, list)):
        raise TypeError(
            f"{kernel}: the arguments must be a tuple, kernel(grid, block, (x, y, n)); got "
            f"{type(args).__name__}"
        )
    if len(args) != len(parameters):
        names = ", ".join(f"{p.declaration} {p.name}" for p in parameters)
        raise TypeError(f"{kernel} takes {len(parameters)} arguments ({names}), got {len(args)}")


def array(kernel: str, p: Parameter, value: object) -> ArrayArgument:
    """Checks an array argument. Raises TypeError (kind, dtype) or ValueError (layout)."""
    if isinstance(value, torch.Tensor):
        return _torch_array(kernel, p, value)
    if isinstance(value, np.ndarray):
        return _numpy_array(kernel, p, value)
    if hasattr(value, "__cuda_array_interface__"):
        return _cuda_array(kernel, p, value)
    hint = ""
    if isinstance(value, (int, float, np.generic)):
        hint = " (a number can't be pointed to: pass the tensor itself, not its data_ptr())"
    raise TypeError(
        f"{kernel}: {p.label} is {p.declaration} and needs a torch, numpy or cupy array (or None); "
        f"got {type(value).__name__}{hint}"
    )


def _wrong_dtype(kernel: str, p: Parameter, dtype: object) -> TypeError:
    return TypeError(
        f"{kernel}: {p.label} is {p.declaration} and needs {_EXPECTED_DTYPE[p.code]}; the array "
        f"given is {dtype}"
    )


def _raw_bits(p: Parameter) -> bool:
    """Integer vectors (uint4*) and structs are read as raw bits: any dtype will do."""
    return p.torch_dtypes is None


def _torch_array(kernel: str, p: Parameter, t: torch.Tensor) -> ArrayArgument:
    if p.torch_dtypes is not None and t.dtype not in p.torch_dtypes:
        raise _wrong_dtype(kernel, p, str(t.dtype).removeprefix("torch."))
    if not t.is_contiguous():
        raise ValueError(
            f"{kernel}: {p.label} is not contiguous (shape {tuple(t.shape)}, strides "
            f"{t.stride()}): pass "
            f"{p.name}.contiguous()" + ("" if p.const else ", and copy the result back")
        )
    if t.device.type not in ("cpu", "cuda"):
        raise TypeError(
            f"{kernel}: {p.label} is on {t.device}; kernels run on cuda and cpu tensors"
        )
    size = t.element_size()
    return _aligned(
        kernel, p, ArrayArgument(p, t.data_ptr(), t.numel() * size, size, str(t.device))
    )


def _numpy_array(kernel: str, p: Parameter, a: np.ndarray) -> ArrayArgument:
    kind = f"{a.dtype.kind}{a.dtype.itemsize}"
    if (
        p.numpy_kinds is not None
        and kind not in p.numpy_kinds
        and a.dtype.name != _EXPECTED_DTYPE[p.code]
    ):
        raise _wrong_dtype(kernel, p, a.dtype)
    if not a.flags.c_contiguous:
        raise ValueError(
            f"{kernel}: {p.label} is not contiguous (shape {a.shape}, strides {a.strides} "
            f"bytes): pass "
            f"np.ascontiguousarray({p.name})"
        )
    if not a.flags.writeable and not p.const:
        raise ValueError(
            f"{kernel}: {p.label} is written by the kernel (no const), but the array is read-only"
        )
    if not a.dtype.isnative:
        raise TypeError(f"{kernel}: {p.label} is in the other byte order ({a.dtype})")
    return _aligned(kernel, p, ArrayArgument(p, a.ctypes.data, a.nbytes, a.dtype.itemsize, "cpu"))


def _cuda_array(kernel: str, p: Parameter, value: object) -> ArrayArgument:
    described = value.__cuda_array_interface__
    dtype = np.dtype(described["typestr"])
    if p.numpy_kinds is not None and f"{dtype.kind}{dtype.itemsize}" not in p.numpy_kinds:
        raise _wrong_dtype(kernel, p, dtype)
    strides, expected = described.get("strides"), dtype.itemsize
    count = math.prod(described["shape"])
    if strides is not None and count:
        for n, stride in zip(reversed(described["shape"]), reversed(strides)):
            if n > 1 and stride != expected:
                raise ValueError(
                    f"{kernel}: {p.label} is not contiguous: pass cupy.ascontiguousarray({p.name})"
                )
            expected *= n
    device = getattr(getattr(value, "device", None), "id", 0)
    address = described["data"][0]
    return _aligned(
        kernel,
        p,
        ArrayArgument(p, address, count * dtype.itemsize, dtype.itemsize, f"cuda:{device}"),
    )


def _aligned(kernel: str, p: Parameter, a: ArrayArgument) -> ArrayArgument:
    if a.address % p.alignment:
        raise ValueError(
            f"{kernel}: {p.label} is {p.declaration} of {p.bytes} bytes, and the array's first "
            f"element is not aligned to "
            f"{p.alignment} bytes (it is a view that begins inside another array): pass a copy"
        )
    return a


def scalar(kernel: str, p: Parameter, value: object) -> np.generic:
    """Checks a number and converts it to the parameter's type. Raises TypeError (kind) or
    ValueError (range)."""
    if isinstance(value, np.generic) and not isinstance(value, np.void):
        value = value.item()
    if p.code == 0 or isinstance(value, np.void):
        return _struct(kernel, p, value)
    is_float = p.code >= 11
    if isinstance(value, torch.Tensor | np.ndarray):
        raise TypeError(
            f"{kernel}: {p.label} is {p.declaration}, a number; got an array of shape "
            f"{tuple(value.shape)}" + (": pass its .item()" if math.prod(value.shape) == 1 else "")
        )
    if not isinstance(value, (bool, int, float) if is_float or p.code == 2 else (bool, int)) or (
        p.code == 2 and isinstance(value, float)
    ):
        raise TypeError(
            f"{kernel}: {p.label} is {p.declaration} and needs "
            f"{'a number' if is_float else 'a whole number'}; "
            f"got {type(value).__name__} {value!r}"
        )
    if p.code == 11:
        return np.float16(value)
    if p.code == 12:
        return np.uint16(
            torch.tensor(value, dtype=torch.bfloat16).view(torch.int16).item() & 0xFFFF
        )
    type_ = _TYPES[p.code][1]
    if not is_float and p.code != 2:
        limits = np.iinfo(type_)
        if not limits.min <= value <= limits.max:
            raise ValueError(
                f"{kernel}: {p.label} is {p.declaration}, which holds {limits.min} to "
                f"{limits.max}; got {value}"
            )
    return type_(value)


def _struct(kernel: str, p: Parameter, value: object) -> np.generic:
    if isinstance(value, np.void) and value.dtype.itemsize == p.bytes:
        return value
    raise TypeError(
        f"{kernel}: {p.label} is a struct of {p.bytes} bytes: pass a numpy record of that size; "
        f"got {type(value).__name__}"
    )


def convert(
    kernel: str, parameters: tuple[Parameter, ...], args: tuple
) -> list[ArrayArgument | np.generic | None]:
    """All arguments, checked: an ArrayArgument or None for a pointer, a numpy scalar for a number.

    Raises TypeError or ValueError naming the parameter; TypeError if the arrays are not on one
    device.
    """
    check_count(kernel, parameters, args)
    converted: list[ArrayArgument | np.generic | None] = []
    first: ArrayArgument | None = None
    for p, value in zip(parameters, args):
        if not p.pointer:
            converted.append(scalar(kernel, p, value))
            continue
        if value is None:
            converted.append(None)
            continue
        a = array(kernel, p, value)
        if first is None:
            first = a
        elif a.where != first.where:
            raise TypeError(
                f"{kernel}: {p.label} is on {a.where}, but `{first.parameter.name}` is on "
                f"{first.where}: "
                "all arrays of a launch must be on one device"
            )
        converted.append(a)
    return converted


MAX_SHARED_BYTES = 227 * 1024  # what one block can have on an H100 or H200
_LIMITS = {"grid": (2**31 - 1, 65535, 65535), "block": (1024, 1024, 64)}


def geometry(kernel: str, what: str, value: object) -> tuple[int, int, int]:
    """A grid or block as three numbers. Raises TypeError or ValueError."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        value = (value,)
    if not isinstance(value, (tuple, list)) or not 1 <= len(value) <= 3:
        raise TypeError(
            f"{kernel}: {what} must be a tuple of one to three whole numbers, got {value!r}"
        )
    for axis, n, limit in zip("xyz", value, _LIMITS[what]):
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
            raise TypeError(f"{kernel}: {what}.{axis} must be a whole number, got {n!r}")
        if not 1 <= n <= limit:
            raise ValueError(f"{kernel}: {what}.{axis} is {n}, it must be 1 to {limit}")
    x, y, z = (*map(int, value), 1, 1)[:3]
    if what == "block" and x * y * z > 1024:
        raise ValueError(
            f"{kernel}: block {tuple(value)} has {x * y * z} threads; a block has at most 1024"
        )
    return x, y, z


def shared_bytes(kernel: str, value: object) -> int:
    """The size of dynamic shared memory in bytes. Raises TypeError or ValueError."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{kernel}: shared_mem must be a number of bytes, got {value!r}")
    if not 0 <= value <= MAX_SHARED_BYTES:
        raise ValueError(
            f"{kernel}: shared_mem is {value} bytes; a block can have 0 to {MAX_SHARED_BYTES}"
        )
    return int(value)
