"""The emulator on 64-bit Arm, cross-compiled and run under qemu-user."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tinyvllm.cuda import RawModule, compiler

HERE = Path(__file__).parent
CROSS, QEMU = shutil.which("aarch64-linux-gnu-g++"), shutil.which("qemu-aarch64")


@pytest.mark.slow
@pytest.mark.skipif(
    not (CROSS and QEMU),
    reason="to test 64-bit Arm: sudo apt install g++-aarch64-linux-gnu qemu-user",
)
def test_the_emulator_runs_on_64_bit_arm(tmp_path):
    source = RawModule(path=HERE / "kernels" / "aarch64.cu").source
    kernels = tmp_path / "kernels.cpp"
    entries = (f"TINYVLLM_KERNEL({i}, {name})" for i, name in enumerate(source.kernels))
    kernels.write_text("\n".join([source.for_host(), '#include "entry.h"', *entries]))

    cross = compiler.Compiler((CROSS,), "gcc", "")
    flags = [*compiler.common_flags(cross), "-O2", "-I", str(compiler.HOST)]

    def build(*command: str) -> None:
        subprocess.run([CROSS, *flags, *command], check=True, timeout=300, cwd=tmp_path)

    # The entry points are public, all else is hidden, as in a library for this machine.
    build("-c", str(compiler.HOST / "emu.cpp"), "-o", "emu.o")
    build("-w", "-nostdinc++", "-include", "cuda_host.h", "-c", str(kernels), "-o", "kernels.o")
    build("kernels.o", "emu.o", "-o", "libkernels.so", *compiler.link_flags(cross))
    main = str(HERE / "aarch64_main.cpp")
    build("-fvisibility=default", main, "-o", "main", "-L.", "-lkernels", "-Wl,-rpath,$ORIGIN")
    done = subprocess.run(
        [QEMU, "-L", "/usr/aarch64-linux-gnu", str(tmp_path / "main")],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.stdout == "right\n", done
