"""What a kernel's shared memory is called in its text, for check mode: `tile[3][5]` instead of byte
788."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from .binary import Binary, SharedVariable
from .source import _ALIGNMENT, _EXTERN_SHARED, Source

_BY_SIZE = {
    1: "char|signed char|unsigned char|bool|int8_t|uint8_t",
    2: "short|unsigned short|int16_t|uint16_t|__half|half|__nv_bfloat16|nv_bfloat16",
    4: "int|unsigned|unsigned int|int32_t|uint32_t|float|__half2|half2|__nv_bfloat162|nv_bfloat162",
    8: "long|long long|unsigned long long|size_t|int64_t|uint64_t|double|float2|int2|uint2",
    12: "float3|int3",
    16: "float4|int4|uint4|double2",
}
_SIZES = {name: size for size, names in _BY_SIZE.items() for name in names.split("|")}


@dataclass(frozen=True)
class Shared:
    """A shared variable: its element's size in bytes and its extents, () for a single value, None
    if unknown."""

    name: str
    bytes: int
    element_bytes: int
    extents: tuple[int, ...] | None

    def element(self, offset: int) -> tuple[str, int | None]:
        """The element at an offset in bytes, as the source would write it, and its flat index.

        Outside of the variable only the first extent is left.
        """
        flat = offset // self.element_bytes
        if self.extents == () and 0 <= offset < self.bytes:
            return self.name, None
        if not self.extents or len(self.extents) == 1:
            return f"{self.name}[{flat}]", flat
        rest, indices = flat, []
        for extent in reversed(self.extents[1:]):
            indices.insert(0, rest % extent)
            rest //= extent
        return self.name + "".join(f"[{i}]" for i in (rest, *indices)), flat

    @property
    def declaration(self) -> str:
        """`tile[16][17]`."""
        return self.name + "".join(f"[{n}]" for n in self.extents or ())


def static_shared(binary: Binary) -> list[Shared]:
    """In the order of `binary.shared_variables`."""
    tables = {}
    for symbol, (_, address, size) in binary.symbols.items():
        if "emu_extents_" in symbol and size == 20:
            name, function = _local_name(symbol)
            tables[function, name.removeprefix("emu_extents_")] = _numbers(binary, address)
    return [_described(v, tables.get((v.function, v.name))) for v in binary.shared_variables]


def _described(v: SharedVariable, table: tuple[int, ...] | None) -> Shared:
    if table is None or not table[0]:
        return Shared(v.name, v.bytes, 1, None)
    return Shared(v.name, v.bytes, table[0], tuple(n for n in table[1:] if n))


def _local_name(symbol: str) -> tuple[str, str]:
    """_ZZ4gemmPfE14emu_extents_As, as binary.py reads the names of variables."""
    function = ""
    if inner := re.match(r"_ZZ(?:N\w*?)?(\d+)", symbol):
        function = symbol[inner.end() : inner.end() + int(inner[1])]
    start = symbol.index("emu_extents_")
    length = re.search(r"(\d+)$", symbol[:start])
    name = symbol[start : start + int(length[1])] if length else symbol[start:].split(".")[0]
    return name, function


def _numbers(binary: Binary, address: int) -> tuple[int, ...]:
    """Five 32-bit numbers at an address of the library."""
    data = binary.data
    start, (size, count) = (
        struct.unpack_from("<Q", data, 0x20)[0],
        struct.unpack_from("<HH", data, 0x36),
    )
    for i in range(count):
        kind, _, offset, virtual, _, in_file, _, _ = struct.unpack_from(
            "<IIQQQQQQ", data, start + i * size
        )
        if kind == 1 and virtual <= address < virtual + in_file:
            return struct.unpack_from("<5I", data, offset + address - virtual)
    return (0, 0, 0, 0, 0)


def dynamic_shared(source: Source, kernel: str, scalar_t: str, bytes_: int) -> Shared:
    """The kernel's `extern __shared__` array; without a name if the text shows none."""
    text = source.blanked
    begin = source.kernel(kernel).line
    after = [k.line for k in source.kernels.values() if k.line > begin]
    end = min(after, default=1 << 30)
    found = list(_EXTERN_SHARED.finditer(text))
    mine = [m for m in found if begin <= source.line_at(m.start()) < end] or found
    if not mine:
        return Shared("dynamic shared memory", bytes_, 1, None)
    type_ = re.sub(r"\b(?:volatile|const)\b", "", _ALIGNMENT.sub("", mine[0][1])).strip()
    if type_ == "scalar_t":
        type_ = scalar_t
    return Shared(mine[0][2], bytes_, _SIZES.get(type_, 1), None)
