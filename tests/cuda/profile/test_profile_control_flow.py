"""Which lanes share a request: profile mode against an interpreter that runs a warp in lockstep.

Random structured programs (if, else, for, break, continue, return) are made once as a tree, which
becomes a kernel whose statements are volatile stores, and which the interpreter walks with a mask.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
import torch

from tinyvllm.cuda import RawModule

FULL = (1 << 32) - 1
PROGRAMS = 12


@dataclass
class Node:
    kind: str  # store, if, for, break, continue, return
    number: int = 0  # of the store, or of the condition's constants
    body: list[Node] = field(default_factory=list)
    other: list[Node] = field(default_factory=list)
    line: int = 0


def condition(number: int, lane: int, loops: tuple[int, ...]) -> bool:
    """In C: ((lane * a + sum of loop counters + b) >> c & 1)."""
    a, b, c = number % 7 + 1, number // 7 % 32, number % 3
    return bool((lane * a + sum(loops) + b) >> c & 1)


def trips(number: int, lane: int) -> int:
    return lane * (number % 5) % 4 + number % 3


def make(rng: random.Random, depth: int, in_loop: bool) -> list[Node]:
    nodes = []
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(["store", "store", "if", "for"] if depth else ["store"])
        node = Node(kind, rng.randrange(1000))
        if kind == "if":
            node.body = make(rng, depth - 1, in_loop)
            leave = rng.choice(["", "", "return", *(["break", "continue"] if in_loop else [])])
            if leave:
                node.body.append(Node(leave))
            elif rng.random() < 0.6:
                node.other = make(rng, depth - 1, in_loop)
        if kind == "for":
            node.body = make(rng, depth - 1, True)
        nodes.append(node)
    return [*nodes, Node("store")]


def leaves_in_loops(nodes: list[Node], inside: bool = False) -> int:
    """How many breaks, continues and returns stand in a loop."""
    return sum(
        (inside and n.kind in ("break", "continue", "return"))
        + leaves_in_loops(n.body + n.other, inside or n.kind == "for")
        for n in nodes
    )


def write(nodes: list[Node], lines: list[str], loops: tuple[str, ...]) -> None:
    """The program as C, one statement a line; notes each node's line (from 1)."""
    for node in nodes:
        pad = "  " * (len(loops) + 1)
        n = node.number
        node.line = len(lines) + 1
        if node.kind == "store":
            lines.append(f"{pad}y[{len(lines) * 32} + lane] = 1;")
        elif node.kind == "if":
            a, b, c = n % 7 + 1, n // 7 % 32, n % 3
            value = " + ".join((f"lane * {a}", *loops, str(b)))
            lines.append(f"{pad}if (({value}) >> {c} & 1) {{")
            write(node.body, lines, loops)
            if node.other:
                lines.append(f"{pad}}} else {{")
                write(node.other, lines, loops)
            lines.append(f"{pad}}}")
        elif node.kind == "for":
            v = f"i{len(lines)}"
            bound = f"lane * {n % 5} % 4 + {n % 3}"
            lines.append(f"{pad}for (int {v} = 0; {v} < {bound}; {v}++) {{")
            write(node.body, lines, (*loops, v))
            lines.append(f"{pad}}}")
        else:
            lines.append(f"{pad}{node.kind};")


class Warp:
    """Runs a program for 32 lanes in lockstep: a statement under the mask of its active lanes."""

    def __init__(self) -> None:
        self.requests: Counter[int] = Counter()
        self.threads: Counter[int] = Counter()

    def run(self, nodes: list[Node], mask: int, loops: tuple[int, ...]) -> tuple[int, int]:
        """Returns the lanes that reached the end, and those that wait at a `continue`."""
        waiting = 0
        for node in nodes:
            if not mask:
                break
            if node.kind == "store":
                self.requests[node.line] += 1
                self.threads[node.line] += mask.bit_count()
            elif node.kind == "if":
                yes = sum(1 << i for i in lanes(mask) if condition(node.number, i, loops))
                then, waits = self.run(node.body, yes, loops)
                other, waits_too = self.run(node.other, mask & ~yes, loops)
                mask, waiting = then | other, waiting | waits | waits_too
            elif node.kind == "for":
                mask = self.loop(node, mask, loops)
            elif node.kind == "continue":
                return 0, waiting | mask
            else:
                if node.kind == "break":
                    self.broken |= mask
                return 0, waiting
        return mask, waiting

    def loop(self, node: Node, mask: int, loops: tuple[int, ...]) -> int:
        outer, self.broken = getattr(self, "broken", 0), 0
        done, i = 0, 0
        while mask:
            going = sum(1 << k for k in lanes(mask) if i < trips(node.number, k))
            done |= mask & ~going
            end, waiting = self.run(node.body, going, (*loops, i))
            mask, i = end | waiting, i + 1
        done |= self.broken
        self.broken = outer
        return done


def lanes(mask: int) -> list[int]:
    return [i for i in range(32) if mask >> i & 1]


@pytest.fixture(scope="module")
def programs() -> tuple[RawModule, list[list[Node]]]:
    rng, lines, made = random.Random(12), [], []
    drawn = [make(rng, 3, False) for _ in range(60)]
    hardest = sorted(drawn, key=lambda nodes: -leaves_in_loops(nodes))[:PROGRAMS]
    for p, nodes in enumerate(hardest):
        lines += [
            f'extern "C" __global__ void program_{p}(volatile int* y) {{ int lane = threadIdx.x;'
        ]
        made.append(nodes)
        write(nodes, lines, ())
        lines += ["}"]
    return RawModule("\n".join(lines), filename="programs.cu"), made


@pytest.mark.parametrize("number", range(PROGRAMS))
def test_lanes_share_a_request_as_a_warp_in_lockstep_would(programs, number: int):
    module, made = programs
    warp = Warp()
    warp.run(made[number], FULL, ())
    y = torch.zeros(32 * 2000, dtype=torch.int32)
    report = module.get_function(f"program_{number}").profile((1,), (32,), (y,))
    stores = {
        x.number: x.counts.global_store for x in report.lines if x.counts.global_store.requests
    }
    assert {n: (s.requests, s.threads) for n, s in stores.items()} == {
        n: (warp.requests[n], warp.threads[n]) for n in warp.requests
    }
