# Promoted from solutions/01_safetensors.md: edit it there, then `make build`.
"""Reading safetensors files: the header is checked in full, the tensors are mapped, not copied.

A file is three parts: the header's length (8 bytes, little-endian), the header (JSON: name,
dtype, shape and position of each tensor) and the bytes of the tensors, one after another.
The format's rules: https://github.com/huggingface/safetensors#format
"""

import json
import math
import mmap
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

MAX_HEADER_BYTES = 100_000_000  # the format's own limit: a header is read into memory whole
MAX_NESTING = 127  # objects and lists inside each other; a legal header needs 3


class SafetensorsError(ValueError):
    """The file breaks a rule of the format. Each rule has its own subclass."""


class FileTooShort(SafetensorsError):
    """Fewer than the 8 bytes of the header's length."""


class HeaderTooLarge(SafetensorsError):
    """The header claims more than 100,000,000 bytes."""


class HeaderTruncated(SafetensorsError):
    """The header claims more bytes than the file has."""


class HeaderStart(SafetensorsError):
    """The header does not begin with `{`."""


def split_header(buffer: bytes | mmap.mmap) -> tuple[bytes, int]:
    """Cut the header out of a file: its bytes, and where the data begins (bytes from the start).

    Raises FileTooShort, HeaderTooLarge, HeaderTruncated or HeaderStart.
    """
    if len(buffer) < 8:
        raise FileTooShort(
            f"a safetensors file begins with 8 bytes of length, this one has {len(buffer)} in all"
        )
    size = int.from_bytes(buffer[:8], "little")
    if size > MAX_HEADER_BYTES:
        raise HeaderTooLarge(
            f"the header claims {size:,} bytes, the format allows {MAX_HEADER_BYTES:,}: "
            "this is probably no safetensors file"
        )
    if 8 + size > len(buffer):
        raise HeaderTruncated(
            f"the header claims {size:,} bytes, the file has {len(buffer) - 8:,} after the length"
        )
    header = bytes(buffer[8 : 8 + size])
    if header[:1] != b"{":
        raise HeaderStart(f"the header must begin with '{{', it begins with {header[:1]!r}")
    return header, 8 + size


class HeaderNotUTF8(SafetensorsError):
    """The header is not UTF-8 text."""


class HeaderNotJSON(SafetensorsError):
    """The header is not one JSON object."""


class HeaderTooDeep(SafetensorsError):
    """Objects and lists of the header are nested too deeply."""


class DuplicateKey(SafetensorsError):
    """One name stands twice in one JSON object."""


def reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The dict of one JSON object's (key, value) pairs. Raises DuplicateKey, naming the key."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise DuplicateKey(f"the key {key!r} stands twice in one object of the header")
        result[key] = value
    return result


def _number(text: str) -> int | float:
    """A JSON number. Python reads 1e999 as infinity and -0 as 0: JSON has no such values."""
    value = float(text)
    if math.isinf(value):
        raise HeaderNotJSON(f"the number {text[:20]}... in the header is out of range")
    return int(text) if text.lstrip("-").isdigit() and text != "-0" else value


def _no_constant(text: str) -> None:
    """Python's json accepts NaN and Infinity; JSON does not."""
    raise HeaderNotJSON(f"the header holds {text}, which is not JSON")


def _nesting(value: Any) -> int:
    """How many objects and lists are inside each other, counted level by level."""
    depth, level = 0, [value]
    while level := [v for v in level if isinstance(v, dict | list)]:
        depth += 1
        level = [c for v in level for c in (v.values() if isinstance(v, dict) else v)]
    return depth


def parse_json(header: bytes) -> dict[str, Any]:
    """The header's JSON object, read more strictly than Python's `json` does by itself.

    Raises HeaderNotUTF8, HeaderNotJSON, HeaderTooDeep or DuplicateKey.
    """
    too_deep = f"objects and lists of the header are nested more than {MAX_NESTING} deep"
    try:
        text = header.decode("utf-8")
        value = json.loads(
            text,
            object_pairs_hook=reject_duplicates,
            parse_int=_number,
            parse_float=_number,
            parse_constant=_no_constant,
        )
    except UnicodeDecodeError as error:
        raise HeaderNotUTF8(f"byte {error.start} of the header is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise HeaderNotJSON(f"the header is not JSON: {error}") from None
    except RecursionError:
        raise HeaderTooDeep(too_deep) from None
    if _nesting(value) > MAX_NESTING:
        raise HeaderTooDeep(too_deep)
    if "\\u" in text:  # half a surrogate pair, such as "\ud800", is no character
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise HeaderNotJSON("the header holds half of a surrogate pair (\\ud8..)") from None
    return value


# dtype as the file writes it -> (bits of one element, torch's dtype or None where torch has none)
DTYPES: dict[str, tuple[int, torch.dtype | None]] = {
    "BOOL": (8, torch.bool),
    "U8": (8, torch.uint8),
    "I8": (8, torch.int8),
    "U16": (16, torch.uint16),
    "I16": (16, torch.int16),
    "U32": (32, torch.uint32),
    "I32": (32, torch.int32),
    "U64": (64, torch.uint64),
    "I64": (64, torch.int64),
    "F16": (16, torch.float16),
    "BF16": (16, torch.bfloat16),
    "F32": (32, torch.float32),
    "F64": (64, torch.float64),
    "C64": (64, torch.complex64),
    "F8_E4M3": (8, torch.float8_e4m3fn),
    "F8_E5M2": (8, torch.float8_e5m2),
    "F8_E4M3FNUZ": (8, torch.float8_e4m3fnuz),
    "F8_E5M2FNUZ": (8, torch.float8_e5m2fnuz),
    "F8_E8M0": (8, torch.float8_e8m0fnu),
    "F6_E2M3": (6, None),
    "F6_E3M2": (6, None),
    "F4": (4, None),
}
U64 = 2**64  # sizes and offsets are unsigned 64-bit integers in the format


class UnknownDtype(SafetensorsError):
    """A dtype that the format does not have."""


class SizeOverflow(SafetensorsError):
    """A shape with more elements or bits than 64 bits can count."""


class SizeMismatch(SafetensorsError):
    """The offsets hold more or fewer bytes than shape and dtype need."""


def tensor_nbytes(dtype: str, shape: tuple[int, ...]) -> int:
    """Bytes that a tensor of this dtype and shape needs.

    Raises UnknownDtype, SizeOverflow (elements or bits do not fit in 64 bits) or SizeMismatch
    (elements smaller than a byte that do not fill whole bytes).
    """
    if dtype not in DTYPES:
        raise UnknownDtype(f"unknown dtype {dtype!r}; the format has {', '.join(DTYPES)}")
    count = 1
    for size in shape:
        count *= size
        if count >= U64:
            raise SizeOverflow(f"shape {list(shape)} has more elements than 64 bits can count")
    bits = count * DTYPES[dtype][0]
    if bits >= U64:
        raise SizeOverflow(f"shape {list(shape)} in {dtype} has more bits than 64 bits can count")
    if bits % 8:
        raise SizeMismatch(f"shape {list(shape)} in {dtype} is {bits} bits, not whole bytes")
    return bits // 8


class InvalidMetadata(SafetensorsError):
    """`__metadata__` is not an object that maps text to text."""


class InvalidEntry(SafetensorsError):
    """A tensor's entry lacks a field, or a field has the wrong type."""


class OffsetsReversed(SafetensorsError):
    """A tensor that ends before it begins."""


@dataclass(frozen=True)
class TensorInfo:
    """What the header says about one tensor; offsets in bytes from the start of the data."""

    dtype: str  # as in the file, e.g. "BF16"
    shape: tuple[int, ...]
    start: int
    end: int


def _is_u64(value: Any) -> bool:
    return type(value) is int and 0 <= value < U64  # `type`: True is an int too


def parse_entry(name: str, entry: Any) -> TensorInfo:
    """One tensor's entry of the header: `{"dtype": ..., "shape": [...], "data_offsets": [a, b]}`.

    Fields that the format does not know are ignored. Raises InvalidEntry, UnknownDtype,
    SizeOverflow, OffsetsReversed or SizeMismatch.
    """
    if not isinstance(entry, dict):
        raise InvalidEntry(f"tensor {name!r}: the entry must be an object, not {entry!r:.40}")
    if missing := [key for key in ("dtype", "shape", "data_offsets") if key not in entry]:
        raise InvalidEntry(f"tensor {name!r}: the entry lacks {' and '.join(missing)}")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str):
        raise InvalidEntry(f"tensor {name!r}: dtype must be text, not {dtype!r:.40}")
    if not (isinstance(shape, list) and all(map(_is_u64, shape))):
        raise InvalidEntry(f"tensor {name!r}: shape must be a list of whole numbers >= 0")
    if not (isinstance(offsets, list) and len(offsets) == 2 and all(map(_is_u64, offsets))):
        raise InvalidEntry(f"tensor {name!r}: data_offsets must be two whole numbers >= 0")
    start, end = offsets
    if start > end:
        raise OffsetsReversed(f"tensor {name!r} begins at byte {start:,} and ends at {end:,}")
    try:
        nbytes = tensor_nbytes(dtype, tuple(shape))
    except SafetensorsError as error:
        raise type(error)(f"tensor {name!r}: {error}") from None
    if end - start != nbytes:
        raise SizeMismatch(
            f"tensor {name!r}: shape {shape} in {dtype} needs {nbytes:,} bytes, "
            f"the offsets hold {end - start:,}"
        )
    return TensorInfo(dtype, tuple(shape), start, end)


def parse_header(header: dict[str, Any]) -> tuple[dict[str, TensorInfo], dict[str, str]]:
    """Tensors (in the order of their bytes) and metadata of a header."""
    metadata = header.get("__metadata__")
    metadata = {} if metadata is None else metadata
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise InvalidMetadata("__metadata__ must be an object that maps text to text")
    tensors = {k: parse_entry(k, v) for k, v in header.items() if k != "__metadata__"}
    by_position = sorted(tensors.items(), key=lambda item: (item[1].start, item[1].end))
    return dict(by_position), metadata


class OffsetsOverlap(SafetensorsError):
    """Two tensors share bytes."""


class OffsetsGap(SafetensorsError):
    """Bytes between two tensors that belong to none."""


class OffsetsOutOfRange(SafetensorsError):
    """A tensor that begins after the end of the file."""


class DataTruncated(SafetensorsError):
    """The tensors need more bytes than the file has."""


class TrailingData(SafetensorsError):
    """Bytes after the last tensor."""


def check_layout(tensors: Mapping[str, TensorInfo], data_nbytes: int) -> None:
    """Check that the tensors fill the data section exactly: no gap, no overlap, nothing left.

    `data_nbytes` is how many bytes the file has after the header. The order of `tensors` does not
    matter. Raises OffsetsOverlap, OffsetsGap, OffsetsOutOfRange, DataTruncated or TrailingData.
    """
    position = 0  # where the next tensor has to begin
    for name, info in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].end)):
        where = f"tensor {name!r} begins at byte {info.start:,} of the data"
        if info.start < position:
            raise OffsetsOverlap(f"{where}, inside the tensor that ends at {position:,}")
        if info.start > data_nbytes:
            raise OffsetsOutOfRange(f"{where}, the file has {data_nbytes:,}")
        if info.start > position:
            raise OffsetsGap(f"{where}, the one before it ends at {position:,}")
        position = info.end
    if position > data_nbytes:
        raise DataTruncated(
            f"the tensors need {position:,} bytes, the file has {data_nbytes:,}: "
            "was it downloaded completely?"
        )
    if position < data_nbytes:
        raise TrailingData(f"{data_nbytes - position:,} bytes after the last tensor belong to none")


def tensor_view(
    buffer: mmap.mmap | bytearray, dtype: torch.dtype, shape: tuple[int, ...], offset: int
) -> torch.Tensor:
    """A tensor [*shape] of `dtype` over the bytes of `buffer` from `offset` on: a view, no copy.

    Bytes that are not aligned (offset no multiple of the element size) are copied: fast code
    relies on aligned addresses.
    """
    count = math.prod(shape)
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    if offset % dtype.itemsize:
        buffer, offset = bytearray(buffer[offset : offset + count * dtype.itemsize]), 0
    return torch.frombuffer(buffer, dtype=dtype, count=count, offset=offset).reshape(shape)


class TensorNotFound(SafetensorsError):
    """No tensor of this name."""


class NotInTorch(SafetensorsError):
    """A legal tensor that torch cannot represent."""


class SafetensorsFile:
    """An open safetensors file. Use it in a `with` block; tensors stay valid after it.

    tensors: dict[str, TensorInfo], in the order of their bytes. metadata: dict[str, str].
    data_start: where the data begins, in bytes from the start of the file.
    Raises SafetensorsError (the subclass says which rule the file breaks) or OSError.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with open(self.path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            # ACCESS_COPY: pages come from the file when they are first read; a write goes to a
            # private copy of the page, never to the file. (An empty file cannot be mapped.)
            self._buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if size else b""
        try:
            header, self.data_start = split_header(self._buffer)
            self.tensors, self.metadata = parse_header(parse_json(header))
            check_layout(self.tensors, size - self.data_start)
        except SafetensorsError as error:
            raise type(error)(f"{self.path}: {error}") from None

    def get_tensor(self, name: str) -> torch.Tensor:
        """The tensor of this name: a view of the mapped file, no byte is copied.

        Writing to it changes memory (of all views of this file), never the file.
        Raises TensorNotFound, or NotInTorch for a legal tensor that torch cannot represent.
        """
        if self._buffer is None:
            raise SafetensorsError(f"{self.path} is closed")
        if name not in self.tensors:
            raise TensorNotFound(
                f"{self.path} has no tensor {name!r}; {_some(self.tensors, 'it has')}"
            )
        info = self.tensors[name]
        dtype, shape = DTYPES[info.dtype][1], info.shape
        if info.dtype == "F4" and shape and shape[-1] % 2 == 0:  # torch packs two in a byte
            dtype, shape = torch.float4_e2m1fn_x2, (*shape[:-1], shape[-1] // 2)
        if dtype is None:
            raise NotInTorch(f"tensor {name!r}: torch has no {info.dtype} of shape {list(shape)}")
        try:
            return tensor_view(self._buffer, dtype, shape, self.data_start + info.start)
        except (RuntimeError, TypeError) as error:  # an empty tensor with a dimension >= 2**63
            raise NotInTorch(f"tensor {name!r}, shape {list(shape)}: {error}") from None

    def close(self) -> None:
        """Let go of the file. The mapping itself lives as long as a tensor views it."""
        self._buffer = None

    def __enter__(self) -> "SafetensorsFile":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _some(names: Iterable[str], lead: str) -> str:
    """Up to five names for an error message."""
    names = list(names)
    more = f", ... ({len(names)} in all)" if len(names) > 5 else ""
    return f"{lead} {', '.join(names[:5]) or 'none'}{more}"


class WeightsNotFound(SafetensorsError):
    """A folder without safetensors weights, or without one of the files its index names."""


class InvalidIndex(SafetensorsError):
    """`model.safetensors.index.json` is not what it should be."""


def weight_map(folder: str | os.PathLike[str]) -> dict[str, Path]:
    """Which file of a model's folder holds which tensor.

    A large model is cut into several files ("shards"), listed in `model.safetensors.index.json`;
    without an index, everything is in `model.safetensors`.
    Raises WeightsNotFound, InvalidIndex, or what a broken file raises.
    """
    folder = Path(folder)
    index, single = folder / "model.safetensors.index.json", folder / "model.safetensors"
    if not index.is_file():
        if not single.is_file():
            present = sorted(path.name for path in folder.glob("*")) if folder.is_dir() else []
            raise WeightsNotFound(
                f"{folder} has neither {single.name} nor {index.name}; {_some(present, 'it has')}"
            )
        with SafetensorsFile(single) as file:
            return dict.fromkeys(file.tensors, single)
    try:
        names = json.loads(index.read_text("utf-8"))["weight_map"]
        files = {name: folder / file for name, file in names.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidIndex(f"{index} has no weight_map of names to files: {error!r}") from None
    for file in dict.fromkeys(names.values()):
        if file in ("", ".", "..") or Path(file).name != file:  # "../other" would leave the folder
            raise InvalidIndex(f"{index} names {file!r}, which is not a file of its own folder")
        if not (folder / file).is_file():
            raise WeightsNotFound(f"{index} names {file}, which is not in {folder}")
    return files
