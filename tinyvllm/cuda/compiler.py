"""Finds a C++ compiler, and builds with it into a cache that is addressed by content.

The key of an object is everything it depends on: the text, every header, the flags, the compiler's
path and version. Objects are built aside and moved into place (os.replace), so parallel processes
at worst build one twice.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .errors import CompileError, CompilerNotFound, Diagnostic

HOST = Path(__file__).parent / "host"
KERNELS = Path(__file__).parent.parent / "kernels"

_INSTALL = (
    "The emulator runs CUDA kernels on the CPU with a C++ compiler, and none was found. "
    "Debian, Ubuntu, Colab: `sudo apt install g++`; Fedora: `sudo dnf install gcc-c++`; macOS: "
    "`xcode-select --install`; "
    'conda: `conda install gxx`; from PyPI (100 MB): `pip install "tinyvllm[compiler]"`. '
    "If you have one under another name, set the environment variable CXX."
)


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: the command that starts it, its kind, and what it says of its version."""

    command: tuple[str, ...]
    kind: str  # "gcc", "clang" or "zig"
    version: str

    @property
    def link_command(self) -> tuple[str, ...]:
        # `zig c++` would build libc++ from source at the first link: minutes. We need only C.
        return (*self.command[:-1], "cc") if self.kind == "zig" else self.command


def find_compiler() -> Compiler:
    """The compiler to use: $CXX, else g++, clang++, c++, else `ziglang` from PyPI. Raises
    CompilerNotFound."""
    return _find(os.environ.get("CXX", ""), os.environ.get("PATH", ""))


@lru_cache
def _find(cxx: str, path: str) -> Compiler:
    if sys.platform == "win32":
        raise CompilerNotFound(
            "The emulator doesn't run on Windows itself: install WSL2 (`wsl --install`) and "
            "start Jupyter inside it, "
            "or use Colab."
        )
    if cxx:
        compiler = _describe(tuple(cxx.split()))
        if compiler is None:
            raise CompilerNotFound(
                f"The environment variable CXX says {cxx!r}, which can't be run as a C++ compiler."
            )
        return compiler
    candidates = [(c,) for c in ("g++", "clang++", "c++")]
    try:
        import ziglang  # noqa: F401

        candidates.append((sys.executable, "-m", "ziglang", "c++"))
    except ImportError:
        pass
    for command in candidates:
        if compiler := _describe(command):
            return compiler
    raise CompilerNotFound(_INSTALL)


def _describe(command: tuple[str, ...]) -> Compiler | None:
    program = shutil.which(command[0])
    if program is None:
        return None
    command = (program, *command[1:])
    try:
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    kind = (
        "zig"
        if command[-2:] and "ziglang" in command
        else "clang"
        if "clang" in done.stdout
        else "gcc"
    )
    return Compiler(command, kind, done.stdout.strip())


def common_flags(compiler: Compiler) -> list[str]:
    """What everything is compiled with. No fused multiply-add by itself: all CPUs give the same
    numbers."""
    flags = [
        "-std=c++17",
        "-fPIC",
        "-gdwarf-4",
        "-g1",
        "-ffp-contract=off",
        "-fno-math-errno",
        "-fno-strict-aliasing",
    ]
    flags += [
        "-fwrapv",
        "-fno-exceptions",
        "-fno-rtti",
        "-fno-threadsafe-statics",
        "-fvisibility=hidden",
    ]
    flags += ["-fno-stack-protector", "-U_FORTIFY_SOURCE", "-D_GNU_SOURCE"]
    if compiler.kind == "gcc":
        flags += ["-fno-gnu-unique"]
    else:
        flags += ["-Wno-unknown-warning-option", "-Wno-unused-command-line-argument"]
    if compiler.kind == "zig":
        flags += ["-fno-sanitize=undefined"]
    if sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64"):
        flags += ["-fstack-clash-protection"]  # a stack can't jump over its guard page
    return flags


def link_flags(compiler: Compiler) -> list[str]:
    if sys.platform == "darwin":
        return ["-shared", "-nostdlib++"]
    flags = ["-shared", "-Wl,-z,defs"]
    if compiler.kind == "gcc":
        return [*flags, "-nodefaultlibs", "-lc", "-lm", "-lpthread", "-lgcc"]
    return (
        [*flags, "-lc", "-lm", "-lpthread"]
        if compiler.kind == "zig"
        else [*flags, "-nostdlib++", "-lm", "-lpthread"]
    )


def cache_folder() -> Path:
    """Where objects are kept: $TINYVLLM_CACHE/cuda, else the user's cache folder. Safe to
    delete."""
    base = os.environ.get("TINYVLLM_CACHE")
    if not base:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tinyvllm"
    folder = Path(base) / "cuda"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def key_of(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:32]


def headers_text() -> str:
    """All headers a kernel may include, as part of a key."""
    files = sorted([*HOST.glob("*.h"), *KERNELS.glob("*.cuh")])
    return "\n".join(f"{f.name}\n{f.read_text()}" for f in files)


def build_object(source: Path, flags: tuple[str, ...] = ()) -> Path:
    """Compiles one of the emulator's own .cpp files; done once for each compiler and content."""
    compiler = find_compiler()
    flags = (*common_flags(compiler), "-O2", *flags)
    key = key_of(
        source.read_text(),
        headers_text(),
        flags,
        compiler.command,
        compiler.version,
        platform.machine(),
    )
    target = cache_folder() / f"{source.stem}-{key}.o"
    if not target.exists():
        _run_into(
            target, [*compiler.command, *flags, "-I", str(HOST), "-c", str(source), "-o"], None
        )
    return target


def build_module(
    text: str, flags: tuple[str, ...], objects: tuple[Path, ...], include: tuple[str, ...] = ()
) -> Path:
    """Compiles C++ text and links it with the objects into a shared library. Raises
    CompileError."""
    compiler = find_compiler()
    flags = (*common_flags(compiler), "-w", "-fno-diagnostics-color", *flags)
    if compiler.kind == "gcc":
        flags += ("-fmax-errors=20", "-fno-diagnostics-show-caret", "-ftrack-macro-expansion=0")
    includes = [f for folder in (str(HOST), *include, str(KERNELS)) for f in ("-I", folder)]
    # No C++ standard library: NVRTC has none either, and <math.h> stays C's, so compiling is quick.
    includes += ["-nostdinc++", "-include", "cuda_host.h"]
    key = key_of(
        text,
        headers_text(),
        flags,
        include,
        [o.name for o in objects],
        compiler.command,
        compiler.version,
        link_flags(compiler),
        platform.machine(),
        _local_headers(text, include),
    )
    target = cache_folder() / f"kernel-{key}.so"
    if target.exists():
        return target
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        source = Path(folder) / "kernel.cpp"
        source.write_text(text)
        object_ = Path(folder) / "kernel.o"
        _run_into(object_, [*compiler.command, *flags, *includes, "-c", str(source), "-o"], folder)
        parts = [str(object_), *map(str, objects)]
        if compiler.kind == "zig" and not any(cache_folder().glob("kernel-*.so")):
            print(
                "zig links for the first time: it builds what it needs, a minute or two", flush=True
            )
        _run_into(target, [*compiler.link_command, *parts, *link_flags(compiler), "-o"], folder)
    return target


def build_library(source: Path, flags: tuple[str, ...]) -> Path:
    """Compiles one plain C++ file of the package into a shared library for this very processor.
    Raises CompileError."""
    compiler = find_compiler()
    flags = ("-std=c++17", "-fPIC", "-O3", *flags)
    key = key_of(source.read_text(), flags, compiler.command, compiler.version, processor_flags())
    target = cache_folder() / f"{source.stem}-{key}.so"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
            object_ = Path(folder) / "library.o"
            _run_into(object_, [*compiler.command, *flags, "-c", str(source), "-o"], folder)
            _run_into(target, [*compiler.link_command, "-shared", str(object_), "-o"], folder)
    return target


def processor_flags() -> str:
    """What this processor can do, as part of a key: a cache may be shared by several machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((li for li in lines if li.startswith(("flags", "Features"))), platform.machine())


def _local_headers(text: str, include: tuple[str, ...]) -> list[str]:
    """Files that the text may include besides `headers_text`, as part of a key."""
    if re.search(r'#[ \t]*include[ \t]*"[^"\n]+\.cu"', text):
        pattern, include = "*.cu*", (*include, str(KERNELS))
    else:
        pattern = "*.cuh"
    files = []
    for folder in include:
        files += [f.read_text(errors="replace") for f in sorted(Path(folder).glob(pattern))]
    return files


def _run_into(target: Path, command: list[str], folder: str | None) -> None:
    aside = target.with_name(f"{target.name}.{os.getpid()}.{os.urandom(4).hex()}")
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            [*command, str(aside)],
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            timeout=900,
        )
        if done.returncode:
            raise compile_error(done.stderr or done.stdout)
        os.replace(aside, target)
    except subprocess.TimeoutExpired:
        raise CompileError("the compiler did not finish within 15 minutes") from None
    finally:
        aside.unlink(missing_ok=True)


_DIAGNOSTIC = re.compile(
    r"^(?P<file>[^\s:(][^:(\n]*)[:(](?P<line>\d+)\)?:(?:(?P<column>\d+):)? "
    r"(?:catastrophic |fatal )?error:? ?(?:#\S+: )?(?P<message>.*)$",
    re.M,
)  # g++, clang: file:1:2: error: ...; NVRTC: file(1): error: ...
_UNDEFINED = re.compile(r"undefined (?:reference to|symbol:?) [`']?([^'\n]+)'?")

# Names that are no part of the subset, and what to say instead of "not declared".
HINTS = [
    (
        r"\basm\b|TINYVLLM_INLINE_PTX",
        "inline PTX is outside the language subset: use the functions of device.cuh",
    ),
    (
        r"__activemask",
        "__activemask is outside the language subset: say which lanes take part with __ballot_sync",
    ),
    (
        r"\btex[123]D|cudaTextureObject_t|\btexture\b|\bsurf[123]D|cudaSurfaceObject_t",
        "textures and surfaces are outside the language subset: use plain arrays, __ldg or "
        "load_streaming of device.cuh",
    ),
    (r"\bwmma\b|\bnvcuda\b", "wmma is outside the language subset: use mma_m16n8k16 of device.cuh"),
    (
        r"cooperative_groups|\bcg\b|this_thread_block|this_grid",
        "cooperative groups are outside the language subset: use "
        "__syncthreads, __syncwarp and the __*_sync functions",
    ),
    (r"__cluster_dims__|clusterIdx|clusterDim", "clusters are outside the language subset"),
    (r"\bstd\b", "the C++ library is outside the language subset (NVRTC has none)"),
    (
        r"operator new|operator delete|\b(?:malloc|free)\b",
        "memory can't be allocated inside a kernel: pass an array",
    ),
    (
        r"__shfl(?:_up|_down|_xor)?\b(?!_sync)",
        "warp functions need their mask: __shfl_sync, __shfl_xor_sync, ...",
    ),
    (
        r"__(?:any|all|ballot)\b(?!_sync)",
        "warp functions need their mask: __any_sync, __all_sync, __ballot_sync",
    ),
    (
        r"\bcuda(?:Malloc|Memcpy|Free|DeviceSynchronize|LaunchKernel)\w*",
        "host code can't stand in a kernel's text: allocate and copy with torch",
    ),
]


_PLACE = re.compile(r"^(?P<file>[^\s:(][^:(\n]*):(?P<line>\d+):\d+:", re.M)


def _in_cudas_words(message: str) -> str:
    """Without the names that the emulator's headers give to CUDA's functions."""
    return re.sub(r"\bemu_(?=\w)", "", re.sub(r"\bemu_fast_(\w+)", r"__\1", message))


def compile_error(output: str) -> CompileError:
    """The compiler's words as an error: its own lines for the user's files, and a sentence where we
    know better."""
    matches = list(_DIAGNOSTIC.finditer(output))
    begins = [0, *(m.end() for m in matches)]
    ends = [*(m.start() for m in matches[1:]), len(output)]
    found = []
    for m, before, end in zip(matches, begins, ends):
        file, line, column = m["file"], int(m["line"]), int(m["column"] or 1)
        if HOST in Path(file).parents:  # in one of ours: the user's line is in the notes around it
            around = output[before : m.start()] + output[m.end() : end]
            places = [p for p in _PLACE.finditer(around) if HOST not in Path(p["file"]).parents]
            if places:
                file, line, column = places[0]["file"], int(places[0]["line"]), 1
        found.append(Diagnostic(file, line, column, _in_cudas_words(m["message"])))
    lines = [f"{d.file}:{d.line}:{d.column}: {d.message}" for d in found]
    if not found:
        undefined = sorted(set(_UNDEFINED.findall(output)))
        lines = [f"{name} is declared but nowhere defined" for name in undefined[:10]] or [
            output.strip()[-2000:]
        ]
    hints = [hint for pattern, hint in HINTS if any(re.search(pattern, line) for line in lines)]
    return CompileError("\n".join(lines + [f"Hint: {h}." for h in hints]), tuple(found), output)
