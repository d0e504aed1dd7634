"""Reads a `.cu` as text: which kernels it has, what their parameters are called, what a host
compiler can't take.

No parser of C++: types come from the compiler (host/signature.h). Everything here works on the text
with comments and string literals blanked out, so positions and line numbers stay those of the file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from .errors import CompileError, Diagnostic

# Headers that people write out of habit and that neither NVRTC nor the emulator needs: read as
# empty.
NEEDLESS_HEADERS = frozenset(
    (
        *("cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "device_launch_parameters.h"),
        *("math.h", "cmath", "stdint.h", "cstdint", "stdio.h", "cstdio", "float.h", "cfloat"),
        *("limits.h", "climits", "stddef.h", "cstddef", "assert.h", "cassert", "math_constants.h"),
    )
)
HEADERS = frozenset(("cuda_bf16.h", "cuda_fp16.h", "device.cuh"))
OUTSIDE_HEADERS = {
    "mma.h": "wmma is outside the language subset: use mma_m16n8k16 of device.cuh",
    "cooperative_groups.h": "cooperative groups are outside the language subset: use "
    "__syncthreads, __syncwarp and the __*_sync functions",
    "cuda_pipeline.h": "cuda_pipeline.h is outside the language subset: use "
    "copy_async, copy_async_commit and copy_async_wait of device.cuh",
}
# Python calls these kernels; a name, its template arguments, its parameters.
_KERNEL = re.compile(r"\b__global__\b")
_EXTERN_SHARED = re.compile(
    r"\bextern\s+__shared__\s+([^;{}()]*(?:\([^;{}]*\))?[^;{}()]*?)\b(\w+)\s*\[\s*\]\s*;"
)
_ALIGNMENT = re.compile(
    r"\b(?:__align__|alignas)\s*\([^()]*(?:\([^()]*\))?[^()]*\)|__attribute__\s*\(\(.*?\)\)"
)
_SHARED = re.compile(r"(?<!extern )\b__shared__\b([^;{}]*);")
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define\b(?:\\\n|[^\n])*", re.M)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"][^\n]*', re.M)


@dataclass(frozen=True)
class KernelText:
    """A kernel as the text shows it."""

    name: str
    parameters: tuple[str, ...]  # names; "arg2" where the text doesn't show one
    is_template: bool
    line: int
    at_top: bool  # not inside a namespace or an #if: its name can be used as it stands


def blank(code: str) -> str:
    """The code with the inside of comments and literals replaced by spaces; newlines stay."""
    pattern = re.compile(
        r"(?P<number>\b\d(?:'?[\w.])*)"  # 1'000 holds no literal
        r"|//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z)|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'",
        re.S,
    )

    def spaces(match: re.Match) -> str:
        text = match.group()
        if match["number"]:
            return text
        if text[0] == '"':
            return '"' + " " * (len(text) - 2) + '"'
        return re.sub(r"[^\n]", " ", text)

    return pattern.sub(spaces, code)


def balanced(text: str, start: int, opening: str = "(", closing: str = ")") -> int:
    """The position behind the bracket that closes the one at `start`; -1 if none does."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == opening) - (text[i] == closing)
        if depth == 0:
            return i + 1
    return -1


def split_at_commas(text: str) -> list[str]:
    """Splits at the commas that stand outside of all brackets."""
    parts, depth, begin = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "(<[{") - (c in ")>]}")
        if c == "," and depth == 0:
            parts.append(text[begin:i])
            begin = i + 1
    return [*parts, text[begin:]] if text.strip() else []


class Source:
    """One `.cu` text with the name and first line number that messages use."""

    def __init__(self, code: str, filename: str, first_line: int = 1):
        self.code = code.replace("\r\n", "\n")
        self.filename = filename
        self.first_line = first_line
        self.blanked = blank(self.code)

    def line_at(self, position: int) -> int:
        return self.first_line + self.blanked.count("\n", 0, position)

    def error(self, position: int, message: str) -> CompileError:
        line = self.line_at(position)
        return CompileError(
            f"{self.filename}:{line}: {message}", (Diagnostic(self.filename, line, 1, message),)
        )

    @cached_property
    def kernels(self) -> dict[str, KernelText]:
        """The kernels of the text by name, in order. Of overloads the first."""
        found: dict[str, KernelText] = {}
        text = _DEFINE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), self.blanked)
        for match in _KERNEL.finditer(text):
            i = match.end()
            while True:  # skip attributes with brackets: __launch_bounds__(256)
                head = re.compile(r"\s*(?:[\w:&*]+\s+)*?(\w+)\s*\(").match(text, i)
                if not head:
                    break
                end = balanced(text, head.end() - 1)
                if end < 0:
                    break
                if head[1] in ("__launch_bounds__", "__maxnreg__", "__attribute__", "__align__"):
                    i = end
                    continue
                inside = text[head.end() : end - 1]
                found.setdefault(head[1], self._kernel(match.start(), head[1], inside))
                break
        return found

    def _kernel(self, start: int, name: str, inside: str) -> KernelText:
        parameters = []
        for i, part in enumerate(split_at_commas(inside)):
            part = re.sub(r"=.*", "", part, flags=re.S)
            part = re.sub(r"\[[^\]]*\]", "", part).strip()
            words = re.findall(r"[A-Za-z_]\w*", part)
            named = len(words) > 1 and re.search(r"\w$", part) and part != "void"
            parameters.append(words[-1] if named else f"arg{i}")
        if inside.strip() == "void":
            parameters = []
        before = self.blanked[:start]
        statement = before[max(before.rfind(c) for c in ";}{#") + 1 :]
        # A brace that is open here belongs to a namespace (or to extern "C", which changes no
        # name).
        depth = len(re.sub(r"\bextern\s*\"[^\"]*\"\s*\{", "", before).split("{")) - len(
            before.split("}")
        )
        ifs = len(re.findall(r"^[ \t]*#[ \t]*if", before, re.M)) - len(
            re.findall(r"^[ \t]*#[ \t]*endif", before, re.M)
        )
        return KernelText(
            name,
            tuple(parameters),
            bool(re.search(r"\btemplate\s*<", statement)),
            self.line_at(start),
            depth <= 0 and ifs == 0,
        )

    def kernel(self, expression: str) -> KernelText:
        """The kernel that a name expression such as `scale<float, 4>` or `ns::scale` names."""
        name = expression.split("<")[0].split("::")[-1].strip().lstrip("&").strip()
        if name not in self.kernels and self._made_by_macro(name):
            return KernelText(name, (), "<" in expression, self.first_line, False)
        if name not in self.kernels:
            known = ", ".join(self.kernels) or "none"
            raise ValueError(f"{self.filename} has no kernel called {name!r}; it has: {known}")
        kernel = self.kernels[name]
        if kernel.is_template and "<" not in expression:
            raise ValueError(f"{name} is a template: say which one, for example {name}<float>")
        return kernel

    def _made_by_macro(self, name: str) -> bool:
        """Whether a macro may define a kernel of this name: then only the compiler knows its
        parameters."""
        in_macro = any(_KERNEL.search(m.group()) for m in _DEFINE.finditer(self.blanked))
        return (
            in_macro
            and re.search(rf"\b{re.escape(name)}\b", _DEFINE.sub("", self.blanked)) is not None
        )

    def check_subset(self) -> None:
        """Raises CompileError for a header or a launch, which are outside the subset."""
        if (launch := self.blanked.find("<<<")) >= 0:
            message = (
                "kernels are launched from Python; a launch with <<<...>>> can't stand in the text"
            )
            raise self.error(launch, message)
        for match in _INCLUDE.finditer(self._code_without_comments()):
            header = match[1]
            if header in OUTSIDE_HEADERS:
                raise self.error(match.start(), OUTSIDE_HEADERS[header])
            if header not in HEADERS | NEEDLESS_HEADERS and "." not in header.split("/")[-1]:
                raise self.error(
                    match.start(),
                    f"<{header}> is a header of the C++ library, which kernels can't use (NVRTC "
                    f"has none); "
                    f"allowed are {', '.join(sorted(HEADERS))}",
                )
            if header.startswith(("cuda/", "cub/", "thrust/", "cute/", "cutlass/")):
                raise self.error(match.start(), f"<{header}> is outside the language subset")

    def _code_without_comments(self) -> str:
        # Literals are blanked as well, but an include's quotes must stay: take those lines from the
        # code.
        lines = zip(self.blanked.split("\n"), self.code.split("\n"))
        return "\n".join(
            code if blanked.lstrip().startswith("#") else blanked for blanked, code in lines
        )

    def without_needless_includes(self) -> str:
        """The code for NVRTC: includes it neither has nor needs are emptied, lines stay."""
        self.check_subset()
        return _replace_at(
            self.code,
            [
                (m.start(), m.end(), "")
                for m in _INCLUDE.finditer(self._code_without_comments())
                if m[1] in NEEDLESS_HEADERS
            ],
        )

    def for_host(self) -> str:
        """The code for a host compiler: `extern __shared__` arrays become pointers, lines stay.

        Raises CompileError for a shared variable with an initialiser and for a dynamic one outside
        a function.
        """
        self.check_subset()
        text = self.blanked
        edits = []
        for m in _INCLUDE.finditer(self._code_without_comments()):
            if m[1] in NEEDLESS_HEADERS:
                edits.append((m.start(), m.end(), ""))
        for m in _EXTERN_SHARED.finditer(text):
            if not self._inside_function(m.start()):
                raise self.error(
                    m.start(), "declare dynamic shared memory inside the kernel that uses it"
                )
            type_ = re.sub(r"\bvolatile\b", "", _ALIGNMENT.sub("", m[1])).strip()
            volatile = "volatile " if re.search(r"\bvolatile\b", m[1]) else ""
            lines = "\n" * m.group().count("\n")
            edits.append(
                (
                    m.start(),
                    m.end(),
                    f"{volatile}{type_}* {m[2]} = emu::dynamic_shared<{type_}>();{lines}",
                )
            )
        for m in _SHARED.finditer(text):
            if re.search(r"\bextern\s*$", text[: m.start()]):
                continue
            declared = m[1]
            if re.search(r"(?<![=!<>])=(?!=)", declared):
                raise self.error(
                    m.start(),
                    "a __shared__ variable can't have an initialiser: write it in the kernel",
                )
            names = [
                re.search(r"(\w+)\s*(?:\[.*)?$", p.strip(), re.S) for p in split_at_commas(declared)
            ]
            checks = "".join(f" EMU_SHARED({n[1]})" for n in names if n)
            edits.append((m.end(), m.end(), checks))
        return _replace_at(self.code, edits)

    def _inside_function(self, position: int) -> bool:
        before = self.blanked[:position]
        opened = []
        for m in re.finditer(r"[{}]", before):
            if m.group() == "{":
                head = before[: m.start()].rstrip()
                opened.append(
                    not re.search(r"(?:\bnamespace(?:\s+[\w:]+)?|\bextern\s*\"\s*\")$", head)
                )
            elif opened:
                opened.pop()
        return any(opened)


def _replace_at(text: str, edits: list[tuple[int, int, str]]) -> str:
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + text[end:]
    return text
