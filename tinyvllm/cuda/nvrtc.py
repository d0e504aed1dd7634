"""The text that NVRTC gets, and NVRTC without a GPU: what CI uses to see that kernels compile for
all of them.

`pip install nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12 "cuda-bindings==12.9.*"` is enough: the
runtime's wheel brings cuda_bf16.h and cuda_fp16.h.
"""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

from .compiler import HOST, KERNELS, compile_error
from .source import Source

PRELUDE = Path(__file__).with_name("device_prelude.h")
STANDARD_OPTIONS = ("--std=c++17", "-lineinfo")


def device_text(source: Source, names: tuple[str, ...], prologue: str) -> str:
    """The `.cu` between the prelude and the tables of its kernels' parameter types
    (host/signature.h).

    The tables are device variables tinyvllm_signature_0, ... in the order of `names`.
    """
    tables = "\n".join(
        f'extern "C" __device__ {table}::type tinyvllm_signature_{i} = {table}::value;'
        for i, table in enumerate(
            f"tinyvllm::SignatureOf<tinyvllm::Function<decltype({name})>::type>" for name in names
        )
    )
    return (
        f'#line 1 "device_prelude.h"\n{PRELUDE.read_text()}\n{prologue}\n'
        f'#line {source.first_line} "{source.filename}"\n{source.without_needless_includes()}\n'
        f'#line 1 "signature.h"\n{(HOST / "signature.h").read_text().replace("#pragma once", "")}\n'
        f'#line 1 "tinyvllm-launch"\n{tables}\n'
    )


def device_options(options: tuple[str, ...]) -> tuple[str, ...]:
    """NVRTC's options for a module. The hash is there so that a cache notices a changed file that
    the text includes."""
    headers = hashlib.sha256(
        "".join(f.read_text() for f in sorted(KERNELS.glob("*.cu*"))).encode()
    ).hexdigest()[:8]
    given = tuple(o for o in options if not o.startswith(("-std", "--std")))
    return (*STANDARD_OPTIONS, f"-I{KERNELS}", f"-DTINYVLLM_HEADERS=0x{headers}", *given)


def is_available() -> bool:
    """Whether compile_cubin can run here."""
    try:
        return find_spec("cuda.bindings.nvrtc") is not None and cuda_include() is not None
    except ImportError:
        return False


def cuda_include() -> Path | None:
    """The folder with cuda_bf16.h, from NVIDIA's runtime wheel."""
    for package in ("nvidia.cuda_runtime", "nvidia.cu13"):
        try:
            spec = find_spec(package)
        except ImportError:
            continue
        for folder in (spec.submodule_search_locations or []) if spec else []:
            if (Path(folder) / "include" / "cuda_bf16.h").exists():
                return Path(folder) / "include"
    return None


def compile_cubin(
    source: Source,
    names: tuple[str, ...],
    arch: str,
    options: tuple[str, ...] = (),
    prologue: str = "",
) -> tuple[bytes, dict[str, str]]:
    """Compiles for an architecture ("sm_90"), no GPU needed: the cubin, and the lowered name of
    each kernel.

    Raises CompileError.
    """
    from cuda.bindings import nvrtc

    def call(result: tuple) -> object:
        if result[0] != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise RuntimeError(f"NVRTC: {result[0]!r}")
        return result[1] if len(result) == 2 else result[1:]

    text = device_text(source, names, prologue).encode()
    program = call(nvrtc.nvrtcCreateProgram(text, source.filename.encode(), 0, [], []))
    try:
        for name in names:
            call(nvrtc.nvrtcAddNameExpression(program, name.encode()))
        all_options = (
            f"--gpu-architecture={arch}",
            f"-I{cuda_include()}",
            *device_options(options),
        )
        encoded = [o.encode() for o in all_options]
        status = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)[0]
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = b" " * call(nvrtc.nvrtcGetProgramLogSize(program))
            call(nvrtc.nvrtcGetProgramLog(program, log))
            raise compile_error(log.decode(errors="replace").rstrip("\0 "))
        cubin = b" " * call(nvrtc.nvrtcGetCUBINSize(program))
        call(nvrtc.nvrtcGetCUBIN(program, cubin))
        lowered = {n: call(nvrtc.nvrtcGetLoweredName(program, n.encode())).decode() for n in names}
        return cubin, lowered
    finally:
        nvrtc.nvrtcDestroyProgram(program)
