"""Finding a compiler, and the cache of what it built."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tinyvllm.cuda import CompilerNotFound, RawModule, compiler, load

TEXT = "__global__ void f(int* x) { x[threadIdx.x] = %d; }"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache that already has the runtime (compiling it takes seconds)."""
    runtime = compiler.build_object(compiler.HOST / "emu.cpp")
    monkeypatch.setenv("TINYVLLM_CACHE", str(tmp_path))
    (compiler.cache_folder() / runtime.name).symlink_to(runtime)
    return tmp_path / "cuda"


def modules(cache: Path) -> list[Path]:
    return sorted(cache.glob("kernel-*.so"))


def test_the_same_text_is_compiled_once(cache, monkeypatch):
    RawModule(TEXT % 1).program()
    (built,) = modules(cache)
    before = built.stat().st_mtime_ns
    RawModule(TEXT % 1).program()
    assert modules(cache) == [built] and built.stat().st_mtime_ns == before


def test_another_text_option_or_header_is_another_object(cache, monkeypatch):
    RawModule(TEXT % 1).program()
    RawModule(TEXT % 2).program()
    RawModule(TEXT % 1, options=("-DX=1",)).program()
    assert len(modules(cache)) == 3
    monkeypatch.setattr(compiler, "headers_text", lambda: "other headers")
    runtime = next(f for f in cache.glob("emu-*.o"))
    monkeypatch.setattr("tinyvllm.cuda.emulator.build_object", lambda *a: runtime)
    RawModule(TEXT % 1).program()
    assert len(modules(cache)) == 4


def test_a_header_beside_the_file_counts(cache, tmp_path):
    (tmp_path / "mine.cuh").write_text("#define VALUE 3\n")
    (tmp_path / "f.cu").write_text(
        '#include "mine.cuh"\n__global__ void f(int* x) { x[0] = VALUE; }'
    )
    x = torch.zeros(1, dtype=torch.int32)
    load(tmp_path / "f.cu", "f")(1, 1, (x,))
    assert x.item() == 3
    (tmp_path / "mine.cuh").write_text("#define VALUE 4\n")
    load(tmp_path / "f.cu", "f")(1, 1, (x,))
    assert x.item() == 4


def test_another_version_of_the_compiler_is_another_object(cache, monkeypatch):
    RawModule(TEXT % 1).program()
    real = compiler.find_compiler()
    runtime = next(f for f in cache.glob("emu-*.o"))
    other = compiler.Compiler(real.command, real.kind, real.version + " (another build)")
    monkeypatch.setattr(compiler, "find_compiler", lambda: other)
    monkeypatch.setattr("tinyvllm.cuda.emulator.build_object", lambda *a: runtime)
    RawModule(TEXT % 1).program()
    assert len(modules(cache)) == 2


def test_processes_that_compile_the_same_at_once_all_run_and_leave_one_object(cache):
    program = (
        "import torch; from tinyvllm.cuda import RawModule\n"
        f"x = torch.zeros(8, dtype=torch.int32); RawModule({TEXT % 9!r}).get_function('f')(1, 8, "
        f"(x,))\n"
        "print(x.sum().item())"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [p.communicate(timeout=300)[0] for p in running] == ["72\n"] * 3
    assert len(modules(cache)) == 1
    assert {f.suffix for f in cache.iterdir()} == {".o", ".so"}  # nothing half-built


def test_a_failed_compilation_leaves_nothing_behind(cache):
    with pytest.raises(ValueError):
        RawModule("__global__ void f(int* x) { x[0] = y; }").program()
    assert [f.suffix for f in cache.iterdir()] == [".o"]


def test_cxx_names_the_compiler(monkeypatch):
    real = compiler.find_compiler()
    monkeypatch.setenv("CXX", real.command[0])
    assert compiler.find_compiler().command == real.command[:1]
    monkeypatch.setenv("CXX", "/no/such/compiler")
    with pytest.raises(CompilerNotFound, match=r"CXX says '/no/such/compiler'"):
        compiler.find_compiler()


def test_without_a_compiler_the_error_says_how_to_get_one(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setitem(sys.modules, "ziglang", None)
    with pytest.raises(
        CompilerNotFound, match=r"apt install g\+\+.*xcode-select.*tinyvllm\[compiler\]"
    ):
        compiler.find_compiler()


def test_windows_is_sent_to_wsl(monkeypatch):
    monkeypatch.setattr(compiler.sys, "platform", "win32")
    with pytest.raises(CompilerNotFound, match=r"WSL2"):
        compiler._find.__wrapped__("", os.environ["PATH"])


def test_load_knows_the_packages_folder_and_says_what_is_there():
    with pytest.raises(FileNotFoundError, match=r"there is no kernel file nothing.cu"):
        load("nothing.cu", "f")
