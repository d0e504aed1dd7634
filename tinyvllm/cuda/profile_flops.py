"""Counts floating-point operations of a compiled kernel, block by block, from its machine code.

A compiler has no hook for arithmetic as it has for accesses, but its code says what each basic
block adds and multiplies; profile mode knows how often each was run. `a * b + c` are two
operations, a division or a square root is one; comparisons, conversions and what library functions
(expf) do inside are none.
"""

from __future__ import annotations

import re
import subprocess
from functools import lru_cache
from pathlib import Path

_INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)(.*)$")
_X86 = re.compile(r"^v?(?:add|sub|mul|div|sqrt)s[sd]$")
_ARM = re.compile(r"^f(?:add|sub|mul|nmul|div|sqrt|madd|msub|nmadd|nmsub)$")


def _operations(name: str, operands: str) -> int:
    if _X86.match(name):
        return 1
    if _ARM.match(name) and re.match(r"\s*[sdh]\d", operands):
        return 2 if name.endswith(("madd", "msub")) else 1
    return 0


@lru_cache(maxsize=64)
def count_flops(library: Path) -> dict[int, tuple[tuple[int, int], ...]] | None:
    """Basic block (the address behind its trace call) -> (address, operations) of its arithmetic.

    Addresses are relative to the library's start. None where there is no `objdump` (a part of
    binutils, as g++'s assembler) to read the code with.
    """
    command = ["objdump", "-d", "--no-show-raw-insn", "-j", ".text", str(library)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    blocks: dict[int, list[tuple[int, int]]] = {}
    current: list[tuple[int, int]] | None = None
    begins = False  # the instruction before called the trace
    for line in done.stdout.splitlines():
        if line.endswith(">:"):
            current, begins = None, False  # another function
        m = _INSTRUCTION.match(line)
        if not m:
            continue
        address, name, operands = int(m[1], 16), m[2], m[3]
        if begins:
            current = blocks.setdefault(address, [])
        begins = name.startswith(("call", "bl")) and "<__sanitizer_cov_trace_pc" in operands
        if current is not None and (n := _operations(name, operands)):
            current.append((address, n))
    return {address: tuple(found) for address, found in blocks.items()}
