"""Read a GGUF file (llama.cpp's model format) into NumPy: its metadata, its tensors as float32.

Only what the default model needs: versions 2 and 3, tensor types F32, F16, Q8_0 and Q4_1. The
layout is that of ggml's document "GGUF": key-value pairs, a table of tensors, the aligned data.
"""

import mmap
import struct
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

# Metadata types by their number in the file, as struct and NumPy both spell them.
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q",
           11: "<q", 12: "<d"}  # fmt: skip
STRING, ARRAY = 8, 9

# Tensor types by their number: name, elements in a block, and how one block lies in the file.
BLOCKS: dict[int, tuple[str, int, np.dtype]] = {
    0: ("F32", 1, np.dtype("<f4")),
    1: ("F16", 1, np.dtype("<f2")),
    3: ("Q4_1", 32, np.dtype([("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)])),
    8: ("Q8_0", 32, np.dtype([("d", "<f2"), ("q", "i1", 32)])),
}


class GGUFError(ValueError):
    """No GGUF file, a broken one, or one that uses what the reader lacks; the text says which."""


class GGUFTensor(NamedTuple):
    type: int  # a key of BLOCKS, where the reader knows it
    shape: tuple[int, ...]  # rows first as in NumPy; the file has it the other way round
    offset: int  # bytes from the start of the data section


class GGUF:
    """A GGUF file, given as a path (it is mapped into memory) or as its bytes.

    `metadata` maps keys to values (an array of numbers is a NumPy array, one of strings a list),
    `tensors` maps names to GGUFTensor. Raises GGUFError for a broken or truncated file.
    """

    def __init__(self, source: str | Path | bytes):
        self._data = memoryview(source if isinstance(source, bytes) else _map(Path(source)))
        if bytes(self._data[:4]) != b"GGUF":
            raise GGUFError(f"this is no GGUF file: it begins with {bytes(self._data[:4])!r}")
        self._at = 4
        version = self._scalar("<I")
        if version not in (2, 3):
            raise GGUFError(f"GGUF version {version} is not supported, only 2 and 3, little-endian")
        num_tensors, num_pairs = self._scalar("<Q"), self._scalar("<Q")
        self.metadata: dict[str, Any] = {}
        for _ in range(num_pairs):
            key = self._string()
            self.metadata[key] = self._value(self._scalar("<I"))
        self.tensors: dict[str, GGUFTensor] = {}
        for _ in range(num_tensors):
            name = self._string()
            sizes = [self._scalar("<Q") for _ in range(self._scalar("<I"))]
            type, offset = self._scalar("<I"), self._scalar("<Q")
            self.tensors[name] = GGUFTensor(type, tuple(reversed(sizes)), offset)
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise GGUFError(f"general.alignment must be a positive number, not {alignment!r}")
        self._start = -(-self._at // alignment) * alignment

    def tensor(self, name: str) -> np.ndarray:
        """Tensor `name`, dequantised: its shape, float32, an array of its own (writable)."""
        type, shape, offset = self.tensors[name]
        if type not in BLOCKS:
            known = ", ".join(f"{number} ({block[0]})" for number, block in BLOCKS.items())
            raise GGUFError(f"tensor {name} has type {type}, but only {known} are supported")
        type_name, block_size, layout = BLOCKS[type]
        if prod(shape) % block_size:
            raise GGUFError(
                f"tensor {name} {list(shape)} is not a whole number of {type_name} blocks"
            )
        blocks = self._array(layout, prod(shape) // block_size, self._start + offset, name)
        if type_name == "Q4_1":  # w = d·q + m; elements 0..15 are the low nibbles, 16..31 the high
            q = np.concatenate([blocks["q"] & 15, blocks["q"] >> 4], axis=1)
            values = blocks["d"].astype(np.float32)[:, None] * q.astype(np.float32)
            values += blocks["m"].astype(np.float32)[:, None]
        elif type_name == "Q8_0":  # w = d·q
            values = blocks["d"].astype(np.float32)[:, None] * blocks["q"].astype(np.float32)
        else:
            values = blocks.astype(np.float32)
        return values.reshape(shape)

    def num_elements(self, name: str) -> int:
        return prod(self.tensors[name].shape)

    def _array(self, dtype: str | np.dtype, count: int, at: int, what: str) -> np.ndarray:
        end = at + count * np.dtype(dtype).itemsize
        if end > len(self._data):
            raise GGUFError(
                f"truncated: {what} ends at byte {end}, but the file has only {len(self._data)}"
            )
        return np.frombuffer(self._data, dtype, count, at)

    def _scalar(self, format: str) -> Any:
        try:
            (value,) = struct.unpack_from(format, self._data, self._at)
        except struct.error:
            raise GGUFError(f"truncated: the header goes on after byte {len(self._data)}") from None
        self._at += struct.calcsize(format)
        return value

    def _string(self) -> str:
        length = self._scalar("<Q")
        text = self._data[self._at : self._at + length]
        if len(text) < length:
            raise GGUFError(f"truncated: the header goes on after byte {len(self._data)}")
        self._at += length
        try:
            return str(text, "utf-8")
        except UnicodeDecodeError as error:
            raise GGUFError(f"the string before byte {self._at} is not UTF-8: {error}") from None

    def _value(self, type: int) -> Any:
        if type in SCALARS:
            return self._scalar(SCALARS[type])
        if type == STRING:
            return self._string()
        if type != ARRAY:
            raise GGUFError(f"metadata type {type} before byte {self._at} does not exist")
        item, count = self._scalar("<I"), self._scalar("<Q")
        if item == STRING:
            return [self._string() for _ in range(count)]
        if item not in SCALARS:
            raise GGUFError(f"an array of metadata type {item} is not supported")
        array = self._array(SCALARS[item], count, self._at, "an array of the header")
        self._at += array.nbytes
        return array


def _map(path: Path) -> mmap.mmap | bytes:
    with open(path, "rb") as file:
        # An empty file can't be mapped.
        empty = path.stat().st_size == 0
        return b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
