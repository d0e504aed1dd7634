"""A profile as a table beside the source: for a shell, and for a notebook."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass

from .profile_report import Counts, Report


@dataclass(frozen=True)
class Column:
    """A column: a head in two lines, a cell's text, whether the cell is worth a second look."""

    head: tuple[str, str]
    help: str
    cell: Callable[[Counts], str]
    warn: Callable[[Counts], bool] = lambda c: False


def _number(n: float | None) -> str:
    if n is None:
        return "n/a"
    if not n:
        return ""
    if n < 100_000:
        return f"{n:,}"
    for unit in ("k", "M", "G"):
        n /= 1000
        if n < 1000:
            return f"{n:.1f}{unit}" if n < 100 else f"{n:.0f}{unit}"
    return f"{n / 1000:.1f}T"


def _per(units: int, requests: int) -> str:
    return f"{units / requests:.3g}" if requests else ""


def _share(c: Counts) -> str:
    moved = c.bytes_moved
    return f"{c.bytes_asked / moved:.0%}" if moved else ""


def _requests(c: Counts) -> int:
    return c.global_load.requests + c.global_store.requests


def _sectors(c: Counts) -> int:
    return c.global_load.sectors + c.global_store.sectors


def _wavefronts(c: Counts) -> int:
    return c.shared_load.wavefronts + c.shared_store.wavefronts


def _conflicts(c: Counts) -> int:
    return c.shared_load.bank_conflicts + c.shared_store.bank_conflicts


def _divergent(c: Counts) -> str:
    return (
        f"{_number(c.divergent_branches)} of {_number(c.branches)}" if c.divergent_branches else ""
    )


COLUMNS = (
    Column(
        ("global", "loads"),
        "load requests of warps to global memory",
        lambda c: _number(c.global_load.requests),
    ),
    Column(
        ("global", "stores"),
        "store requests of warps to global memory",
        lambda c: _number(c.global_store.requests),
    ),
    Column(
        ("sectors", "/request"),
        "32-byte sectors that a request moves; 4 is perfect for 4-byte elements",
        lambda c: _per(_sectors(c), _requests(c)),
    ),
    Column(
        ("bytes", "asked"),
        "distinct bytes that the threads want of global memory",
        lambda c: _number(c.bytes_asked),
    ),
    Column(("bytes", "moved"), "sectors times 32", lambda c: _number(c.bytes_moved)),
    Column(
        ("", "used"),
        "bytes asked for of the bytes moved",
        _share,
        lambda c: _sectors(c) > 1.5 * (c.global_load.ideal_sectors + c.global_store.ideal_sectors),
    ),
    Column(
        ("shared", "wavefr."),
        "passes over the banks that loads and stores of shared memory need",
        lambda c: _number(_wavefronts(c)),
    ),
    Column(
        ("bank", "conflicts"),
        "wavefronts lost because lanes want different words of one bank",
        lambda c: _number(_conflicts(c)),
        lambda c: _conflicts(c) > 0,
    ),
    Column(
        ("", "atomics"),
        "atomic requests of warps",
        lambda c: _number(c.global_atomic.requests + c.shared_atomic.requests),
    ),
    Column(
        ("branches", "divergent"),
        "of the conditions that warps evaluated, those where active lanes went both ways",
        _divergent,
        lambda c: c.divergent_branches > 0,
    ),
    Column(("", "barriers"), "block barriers", lambda c: _number(c.barriers)),
    Column(
        ("warp", "functions"),
        "shuffles, votes, __syncwarp, by warps",
        lambda c: _number(c.warp_functions),
    ),
    Column(
        ("", "FLOPs"),
        "additions, multiplications, divisions, square roots",
        lambda c: _number(c.flops),
    ),
)
_OPTIONAL = {"atomics", "functions", "barriers", "wavefr.", "conflicts", "divergent", "FLOPs"}


def _rows(report: Report) -> tuple[list[Column], list[tuple[str, str, Counts]]]:
    """The columns that say something, and rows of (line number, text, counts)."""
    columns = [
        c for c in COLUMNS if c.head[1] not in _OPTIONAL or c.cell(report.total) not in ("", "n/a")
    ]
    rows = [
        (str(n), text, report.line(n)) if n else ("...", "", Counts()) for n, text in report.source
    ]
    rows += [
        (f"{line.file}:{line.number}", line.text, line.counts)
        for line in report.lines
        if line.file != report.filename
    ]
    return columns, rows


def _title(report: Report) -> str:
    def xyz(v: tuple[int, ...]) -> str:
        kept = list(v)
        while len(kept) > 1 and kept[-1] == 1:
            kept.pop()
        return " x ".join(map(str, kept))

    return f"{report.kernel}: {xyz(report.grid)} blocks of {xyz(report.block)} threads"


def text_table(report: Report) -> str:
    """For a shell: numbers at the left, the source at the right."""
    columns, rows = _rows(report)
    cells = [[c.cell(counts) for c in columns] for _, _, counts in rows]
    total = [c.cell(report.total) for c in columns]
    widths = [
        max(len(column.head[0]), len(column.head[1]), *(len(row[i]) for row in [*cells, total]))
        for i, column in enumerate(columns)
    ]
    digits = max((len(number) for number, _, _ in rows), default=1)

    def join(values: list[str]) -> str:
        return "  ".join(v.rjust(w) for v, w in zip(values, widths))

    lines = [_title(report), join([c.head[0] for c in columns])]
    lines += [f"{join([c.head[1] for c in columns])}  {'line'.rjust(digits)}"]
    lines += [
        f"{join(values)}  {number.rjust(digits)}  {text}".rstrip()
        for values, (number, text, _) in zip(cells, rows)
    ]
    lines += [f"{join(total)}  {'total'.rjust(digits)}"]
    return "\n".join(lines)


# Colours work on the light and the dark themes of JupyterLab, VS Code and Colab.
_TABLE = "border-collapse:collapse;font-family:monospace;font-size:12px;line-height:1.35"
_CELL = "padding:0 8px;text-align:right;white-space:nowrap;border:none"
_TEXT = "padding:0 8px;text-align:left;white-space:pre;border:none"
_WARN = "background:rgba(230,120,0,.28)"


def html_table(report: Report) -> str:
    """For a notebook. What is worth a look is marked; resting the mouse on a head explains it."""
    columns, rows = _rows(report)

    def cell(column: Column, counts: Counts, tag: str = "td") -> str:
        style = f"{_CELL};{_WARN}" if column.warn(counts) else _CELL
        return f'<{tag} style="{style}">{html.escape(column.cell(counts))}</{tag}>'

    heads = "".join(
        f'<th style="{_CELL}" title="{html.escape(c.help)}">{c.head[0]}<br>{c.head[1]}</th>'
        for c in columns
    )
    body = "".join(
        f"<tr>{''.join(cell(c, counts) for c in columns)}"
        f'<td style="{_CELL};opacity:.6">{html.escape(number)}</td>'
        f'<td style="{_TEXT}">{html.escape(text)}</td></tr>'
        for number, text, counts in rows
    )
    total = "".join(cell(c, report.total, "th") for c in columns)
    return (
        f"<div><b>{html.escape(_title(report))}</b></div>"
        f'<div style="overflow-x:auto"><table style="{_TABLE}"><thead><tr>{heads}'
        f'<th style="{_CELL}">line</th><th style="{_TEXT}">{html.escape(report.filename)}</th></tr>'
        f'</thead><tbody>{body}</tbody><tfoot><tr style="border-top:1px solid">{total}'
        f'<th style="{_CELL}">total</th><th></th></tr></tfoot></table></div>'
    )
