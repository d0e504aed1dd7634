"""Integer intrinsics against Python's integers (CUDA Math API, "Integer Intrinsics")."""

from functools import cache

import pytest
from elementwise import Case, check, text_of

from tinyvllm.cuda import RawModule

U32 = (0, 1, 2, 0x80000000, 0xFFFFFFFF, 0x12345678, 0x00F0F000, 7)
U64 = (0, 1, 1 << 63, 2**64 - 1, 0x123456789ABCDEF0, 1 << 40, 3, 10)
SHIFTS = (0, 1, 4, 31, 32, 33, 8, 16)
I32 = (0, 1, -1, 2**31 - 1, -(2**31), 123456789, -987654321, 65536)
MIXED = tuple(reversed(U32))


def signed(x: int, bits: int = 32) -> int:
    return (x + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def reverse(x: int, bits: int) -> int:
    return int(format(x, f"0{bits}b")[::-1], 2)


def ffs(x: int) -> int:
    return (x & -x).bit_length()


def byte_perm(x: int, y: int, selector: int) -> int:
    pool = x.to_bytes(4, "little") + y.to_bytes(4, "little")
    return int.from_bytes(bytes(pool[selector >> 4 * i & 7] for i in range(4)), "little")


def dot4(a: int, b: int, c: int, is_signed: bool) -> int:
    def parts(v: int) -> list[int]:
        return [signed(p, 8) if is_signed else p for p in (v % 2**32).to_bytes(4, "little")]

    return c + sum(p * q for p, q in zip(parts(a), parts(b)))


def funnel(low: int, high: int) -> int:
    return high << 32 | low


CASES = {
    "popc": Case("__popc(x)", "int", ("unsigned",), (U32,), lambda x: x.bit_count()),
    "popcll": Case("__popcll(x)", "int", ("unsigned long long",), (U64,), lambda x: x.bit_count()),
    "clz": Case("__clz(x)", "int", ("unsigned",), (U32,), lambda x: 32 - x.bit_length()),
    "clzll": Case(
        "__clzll(x)", "int", ("unsigned long long",), (U64,), lambda x: 64 - x.bit_length()
    ),
    "ffs": Case("__ffs(x)", "int", ("unsigned",), (U32,), ffs),
    "ffsll": Case("__ffsll(x)", "int", ("unsigned long long",), (U64,), ffs),
    "brev": Case("__brev(x)", "unsigned", ("unsigned",), (U32,), lambda x: reverse(x, 32)),
    "brevll": Case(
        "__brevll(x)",
        "unsigned long long",
        ("unsigned long long",),
        (U64,),
        lambda x: reverse(x, 64),
    ),
    "mulhi": Case(
        "__mulhi(x, y)", "int", ("int", "int"), (I32, I32[::-1]), lambda x, y: x * y >> 32
    ),
    "umulhi": Case(
        "__umulhi(x, y)",
        "unsigned",
        ("unsigned", "unsigned"),
        (U32, MIXED),
        lambda x, y: x * y >> 32,
    ),
    "umul64hi": Case(
        "__umul64hi(x, y)",
        "unsigned long long",
        ("unsigned long long",) * 2,
        (U64, U64[::-1]),
        lambda x, y: x * y >> 64,
    ),
    "funnelshift_l": Case(
        "__funnelshift_l(x, y, z)",
        "unsigned",
        ("unsigned",) * 3,
        (U32, MIXED, SHIFTS),
        lambda lo, hi, s: funnel(lo, hi) << (s & 31) >> 32,
    ),
    "funnelshift_r": Case(
        "__funnelshift_r(x, y, z)",
        "unsigned",
        ("unsigned",) * 3,
        (U32, MIXED, SHIFTS),
        lambda lo, hi, s: funnel(lo, hi) >> (s & 31),
    ),
    "byte_perm": Case(
        "__byte_perm(x, y, z)",
        "unsigned",
        ("unsigned",) * 3,
        (U32, MIXED, (0x3210, 0x7654, 0x0123, 0x5040, 0x1111, 0x7531, 0x0000, 0x6420)),
        byte_perm,
    ),
    "dp4a_signed": Case(
        "__dp4a(x, y, z)",
        "int",
        ("int",) * 3,
        (I32, I32[::-1], SHIFTS),
        lambda a, b, c: dot4(a, b, c, True),
    ),
    "dp4a_unsigned": Case(
        "__dp4a(x, y, z)",
        "unsigned",
        ("unsigned",) * 3,
        (U32, MIXED, SHIFTS),
        lambda a, b, c: dot4(a, b, c, False),
    ),
    "sad": Case(
        "__sad(x, y, z)",
        "unsigned",
        ("int", "int", "unsigned"),
        (I32, I32[::-1], SHIFTS),
        lambda a, b, c: abs(a - b) + c,
    ),
    "usad": Case(
        "__usad(x, y, z)",
        "unsigned",
        ("unsigned",) * 3,
        (U32, MIXED, SHIFTS),
        lambda a, b, c: abs(a - b) + c,
    ),
    "min_mixed": Case(
        "min(x, y)", "unsigned", ("int", "unsigned"), (I32, U32), lambda x, y: min(x % 2**32, y)
    ),
    "max_int": Case("max(x, y)", "int", ("int", "int"), (I32, I32[::-1]), max),
    "abs_int": Case("abs(x)", "int", ("int",), ((0, 1, -1, 12345, -12345),), abs),
}


@cache
def module() -> RawModule:
    return RawModule(text_of(CASES))


@pytest.mark.parametrize("name", CASES)
def test_an_integer_intrinsic_equals_python(name, device):
    check(module(), CASES, name, device)
