"""Check mode raises a race exactly where full vector clocks do, on random programs of two warps."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tinyvllm.cuda import Kernel, KernelError, RawModule

WRITE, READ, SYNCWARP, SYNCTHREADS = range(4)
THREADS = 64


@cache
def interpreter() -> Kernel:
    return RawModule(path=Path(__file__).parent / "kernels" / "order.cu").get_function("interpret")


def random_program(rng: np.random.Generator) -> np.ndarray:
    """[steps, 4] int32; few threads touch a cell, meetings are of whole warps, halves or a few
    lanes."""
    masks = [0xFFFFFFFF, 0xFFFF, 0xFFFF0000, 0x3, 0x6, 0xC, 0x9, 0x80000001]
    steps = []
    for _ in range(rng.integers(4, 16)):
        what = rng.choice([WRITE, READ, SYNCWARP, SYNCTHREADS], p=[0.25, 0.2, 0.45, 0.1])
        lanes = [0, 0]
        if what in (WRITE, READ):
            width = 1 if what == WRITE else rng.integers(1, 3)
            lanes[rng.integers(0, 2) if rng.random() < 0.2 else 0] = int(
                sum({1 << int(rng.choice([0, 1, 2, 3, 17, 31])) for _ in range(width)})
            )
        elif what == SYNCWARP:
            lanes = [int(rng.choice(masks)), int(rng.choice(masks)) if rng.random() < 0.3 else 0]
        steps.append([what, rng.integers(0, 2), *lanes])
    return np.array(steps, dtype=np.int64).astype(np.uint32).view(np.int32)


def has_race(program: np.ndarray) -> bool:
    """Every access against every earlier one, with a vector clock for each thread."""
    clocks = np.eye(THREADS, dtype=np.int64)  # clocks[t][u]: what t knows of u
    accesses: list[tuple[int, int, bool, int]] = []  # cell, thread, write, its clock

    def meet(threads: list[int]) -> None:
        clocks[threads] = clocks[threads].max(0)
        for t in threads:
            clocks[t][t] += 1

    meet(list(range(THREADS)))
    for what, cell, *lanes in program.view(np.uint32).tolist():
        threads = [32 * w + i for w in range(2) for i in range(32) if lanes[w] >> i & 1]
        if what == SYNCTHREADS:
            meet(list(range(THREADS)))
        elif what == SYNCWARP:
            for w in range(2):
                if here := [t for t in threads if t // 32 == w]:
                    meet(here)
        else:
            for t in threads:
                for other_cell, u, write, clock in accesses:
                    both_read = what == READ and not write
                    if other_cell == cell and u != t and not both_read and clocks[t][u] < clock:
                        return True
                accesses.append((cell, t, what == WRITE, clocks[t][t]))
    return False


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_race_where_vector_clocks_say_so(seed):
    rng = np.random.default_rng(seed)
    outcomes = set()
    for _ in range(25):
        program = random_program(rng)
        expected = has_race(program)
        outcomes.add(expected)
        try:
            interpreter().check(
                (1,), (THREADS,), (np.zeros(THREADS, np.int32), program, len(program))
            )
            found = False
        except KernelError as error:
            assert error.kind == "race", str(error)
            found = True
        assert found == expected, program.view(np.uint32).tolist()
    assert outcomes == {True, False}
