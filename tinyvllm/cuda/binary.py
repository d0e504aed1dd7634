"""Reads what the emulator needs from a shared library that it built: symbols, shared variables,
source lines.

ELF (64 bit, little-endian) and DWARF 4 line tables, https://dwarfstd.org/doc/DWARF4.pdf section
6.2. Written here because `addr2line` and `nm` don't come with every compiler, and because check
mode asks for thousands of lines.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path


@dataclass(frozen=True)
class SharedVariable:
    """A `__shared__` variable: its name in the source, the kernel's or function's name, its place
    (bytes)."""

    name: str
    function: str
    offset: int  # in the module's thread-local storage
    bytes: int


@dataclass(frozen=True)
class Row:
    """From this address on, the code belongs to this line."""

    address: int
    file: str
    line: int
    end: bool


class Binary:
    """A shared library on disk. On formats other than ELF everything is empty: messages then have
    no lines."""

    def __init__(self, path: Path):
        self.data = path.read_bytes()

    @cached_property
    def sections(self) -> dict[str, tuple[int, int, int]]:
        """Name -> (type, offset, size)."""
        if self.data[:6] != b"\x7fELF\x02\x01":
            return {}
        offset = struct.unpack_from("<Q", self.data, 0x28)[0]
        size, count, names_index = struct.unpack_from("<HHH", self.data, 0x3A)
        headers = [
            struct.unpack_from("<IIQQQQIIQQ", self.data, offset + i * size) for i in range(count)
        ]
        names = headers[names_index][4]
        return {self._string(names + h[0]): (h[1], h[4], h[5]) for h in headers}

    def _string(self, offset: int) -> str:
        return self.data[offset : self.data.index(b"\0", offset)].decode(errors="replace")

    @cached_property
    def symbols(self) -> dict[str, tuple[int, int, int]]:
        """Name -> (kind, value, size); kind 6 is thread-local storage, 2 a function."""
        found = {}
        if ".symtab" not in self.sections:
            return found
        _, offset, size = self.sections[".symtab"]
        _, strings, _ = self.sections[".strtab"]
        for at in range(offset, offset + size, 24):
            name, info, _, section, value, length = struct.unpack_from("<IBBHQQ", self.data, at)
            if name and section:
                found[self._string(strings + name)] = (info & 15, value, length)
        return found

    @cached_property
    def shared_variables(self) -> list[SharedVariable]:
        """By offset. Their symbols are mangled local names: _ZZ4gemmPfE5tile_0 is tile_0 of
        gemm."""
        found = []
        for symbol, (kind, value, size) in self.symbols.items():
            if kind != 6 or symbol.startswith("_ZGV") or not size:
                continue
            function, name = "", symbol
            if local := re.match(r"_ZZ.*E(\d+)(?=\w)", symbol):
                length, start = int(local[1]), local.end()
                name = symbol[start : start + length]
                if inner := re.match(r"_ZZ(?:N\w*?)?(\d+)", symbol):
                    function = symbol[inner.end() : inner.end() + int(inner[1])]
            elif local := re.match(r"_ZL?(\d+)", symbol):
                name = symbol[local.end() : local.end() + int(local[1])]
            else:
                name = name.split(".")[0]
            found.append(SharedVariable(name, function, value, size))
        return sorted(found, key=lambda v: v.offset)

    @cached_property
    def rows(self) -> list[Row]:
        """The line table, by address."""
        if ".debug_line" not in self.sections:
            return []
        _, offset, size = self.sections[".debug_line"]
        rows: list[Row] = []
        end = offset + size
        while offset < end:
            offset = self._read_unit(offset, rows)
        return sorted(rows, key=lambda r: (r.address, not r.end))

    def line_of(self, address: int, own: frozenset[str] = frozenset()) -> tuple[str, int] | None:
        """(file name, line) of an address relative to the library's start; None if unknown.

        `own`: names of the emulator's headers. For code inlined from them the answer is the last
        line of another file before it, which is the place of the call or just above.
        """
        start, end = self._function_at(address)
        i = bisect_right(self._addresses, address) - 1
        before = range(i, -1, -1)
        behind = range(i + 1, len(self.rows))
        for places in (before, behind):
            for j in places:
                row = self.rows[j]
                if row.end or not start <= row.address < end:
                    break
                name = row.file.rsplit("/", 1)[-1]
                if name not in own and row.line:
                    return name, row.line
        return None

    def _function_at(self, address: int) -> tuple[int, int]:
        """Start and end of the function that an address lies in."""
        i = bisect_right(self._functions, (address, 1 << 62)) - 1
        return self._functions[i] if i >= 0 else (0, 1 << 62)

    @cached_property
    def _functions(self) -> list[tuple[int, int]]:
        return sorted((v, v + size) for kind, v, size in self.symbols.values() if kind == 2)

    @cached_property
    def _addresses(self) -> list[int]:
        return [r.address for r in self.rows]

    def _leb(self, at: int, signed: bool = False) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = self.data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
        if signed and byte & 0x40:
            value -= 1 << shift
        return value, at

    def _read_unit(self, at: int, rows: list[Row]) -> int:
        length, version, header = struct.unpack_from("<IHI", self.data, at)
        unit_end = at + 4 + length
        if version != 4:
            return unit_end
        program = at + 10 + header
        min_length, _, _, line_base, line_range, opcode_base = struct.unpack_from(
            "<BBBbBB", self.data, at + 10
        )
        arguments = self.data[at + 16 : at + 16 + opcode_base - 1]
        at += 16 + opcode_base - 1
        while self.data[at]:  # include directories
            at = self.data.index(b"\0", at) + 1
        at += 1
        files = [""]
        while self.data[at]:
            files.append(self._string(at))
            at = self.data.index(b"\0", at) + 1
            for _ in range(3):
                _, at = self._leb(at)

        def emit(end: bool = False) -> None:
            rows.append(Row(address, files[file] if file < len(files) else "", line, end))

        at = program
        address, file, line = 0, 1, 1
        while at < unit_end:
            opcode = self.data[at]
            at += 1
            if opcode >= opcode_base:
                adjusted = opcode - opcode_base
                address += adjusted // line_range * min_length
                line += line_base + adjusted % line_range
                emit()
            elif opcode == 0:
                size, at = self._leb(at)
                kind = self.data[at]
                if kind == 1:
                    emit(end=True)
                    address, file, line = 0, 1, 1
                elif kind == 2:
                    address = int.from_bytes(self.data[at + 1 : at + size], "little")
                elif kind == 3:
                    files.append(self._string(at + 1))
                at += size
            elif opcode == 1:
                emit()
            elif opcode == 2:
                step, at = self._leb(at)
                address += step * min_length
            elif opcode == 3:
                step, at = self._leb(at, signed=True)
                line += step
            elif opcode == 4:
                file, at = self._leb(at)
            elif opcode == 8:
                address += (255 - opcode_base) // line_range * min_length
            elif opcode == 9:
                address += struct.unpack_from("<H", self.data, at)[0]
                at += 2
            else:
                for _ in range(arguments[opcode - 1]):
                    _, at = self._leb(at)
        return unit_end


@lru_cache(maxsize=256)
def read_binary(path: Path) -> Binary:
    """The library at a path of the cache (whose content never changes)."""
    return Binary(path)
