"""Runs kernels on an NVIDIA GPU: CuPy compiles them with NVRTC and launches them on torch's current
stream.

Torch arrays go by address, numbers as the parameter's own type. The path of a repeated launch is
short (a few microseconds besides the driver's own): for each parameter one comparison of the dtype,
the device and the layout; whatever is unusual about an argument is left to arguments.py, which says
what is wrong with it. Nothing here waits for the GPU or allocates, so launches can be captured in a
torch.cuda.graph (launch once before: that compiles).
"""

from __future__ import annotations

import ctypes
import warnings
from functools import lru_cache

import numpy as np
import torch

from . import arguments
from .arguments import ArrayArgument, Parameter, parameters_of
from .compiler import compile_error
from .driver import PackedLaunch
from .nvrtc import device_options, device_text
from .source import Source

_DEFAULT_SHARED_LIMIT = 48 * 1024  # beyond it, a kernel has to ask


@lru_cache
def _cupy():
    try:
        import cupy
    except ImportError as error:
        raise ModuleNotFoundError(
            "Kernels on CUDA tensors need CuPy: `pip install tinyvllm[gpu]` (CUDA 12) or "
            "`tinyvllm[gpu13]` (CUDA 13)."
        ) from error
    return cupy


# torch.cuda.current_stream() costs as much as a launch; this is what it asks.
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
    lambda device: torch.cuda.current_stream(device).cuda_stream
)
_streams: dict[tuple[int, int], tuple[object, ctypes.c_void_p]] = {}


def _stream(device: int) -> tuple[object, ctypes.c_void_p]:
    """Torch's current stream on a device, as CuPy sees it and as the driver does."""
    raw = _raw_stream(device)
    stream = _streams.get((device, raw))
    if stream is None:
        cupy, current = _cupy(), torch.cuda.current_stream(device)
        with cupy.cuda.Device(device):
            try:
                stream = cupy.cuda.Stream.from_external(current)
            except Exception:  # an older CuPy, or one that won't be asked while a graph is captured
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)
                    stream = cupy.cuda.ExternalStream(raw, device)
        stream = _streams[device, raw] = stream, ctypes.c_void_p(raw)
    return stream


class GpuModule:
    """A `.cu` text compiled by NVRTC, on every device where it is used."""

    def __init__(
        self, source: Source, names: tuple[str, ...], options: tuple[str, ...], prologue: str
    ):
        self.source, self.names = source, names
        self._raw = _cupy().RawModule(
            code=device_text(source, names, prologue),
            backend="nvrtc",
            options=device_options(options),
            name_expressions=list(names),
        )
        self._functions: dict[str, GpuFunction] = {}
        self._compiled = False

    def compile(self) -> None:
        """Compiles for the current device; done once. Raises CompileError with NVRTC's messages."""
        from cupy.cuda.compiler import CompileException

        if self._compiled:
            return
        try:
            self._raw.compile()
        except CompileException as error:
            raise compile_error(_log(error)) from None
        self._compiled = True

    def function(self, name: str) -> GpuFunction:
        """A kernel by name expression."""
        if name not in self._functions:
            self.compile()
            self._functions[name] = GpuFunction(self, name)
        return self._functions[name]

    def raw_kernel(self, name: str):
        """CuPy's own kernel object."""
        return self._raw.get_function(name)

    def parameters(self, name: str) -> tuple[Parameter, ...]:
        """Reads the kernel's table of parameter types from the module's memory."""
        cupy = _cupy()
        texts = self.source.kernel(name).parameters
        pointer = self._raw.get_global(f"tinyvllm_signature_{self.names.index(name)}")

        def read(count: int) -> list[int]:
            return cupy.ndarray((count,), dtype=np.int32, memptr=pointer).get().tolist()

        count = read(1)[0]
        return parameters_of(read(1 + 5 * count)[1:], texts)


def _log(error: Exception) -> str:
    get = getattr(error, "get_message", None)
    return get() if get else str(error)


class GpuFunction:
    """A kernel on the GPU."""

    def __init__(self, owner: GpuModule, name: str):
        self.owner, self.name = owner, name
        self.parameters = owner.parameters(name)
        self._raw = owner.raw_kernel(name)
        self._by_device: dict[int, object] = {}  # what launches, loaded there
        self._shared_limits: dict[int, int] = {}  # bytes that were asked for there
        self._geometries: dict[tuple, tuple] = {}
        self._plan = tuple(_plan(p) for p in self.parameters)
        kinds = [kind for kind, _, _ in self._plan]
        self._packed = None if _OTHER in kinds else PackedLaunch(kinds)
        self._functions: dict[int, ctypes.c_void_p] = {}  # the driver's handle, by device
        self._several_devices = torch.cuda.device_count() > 1

    def launch(self, grid: tuple, block: tuple, args: tuple, shared_mem: int) -> bool:
        """The short way: returns False, launching nothing, if anything is out of the ordinary."""
        plan = self._plan
        if type(args) is not tuple or len(args) != len(plan) or self._packed is None:
            return False
        values = []
        device = -1
        for (kind, dtypes, alignment), a in zip(plan, args):
            if kind == _POINTER:
                if type(a) is not torch.Tensor or a.dtype not in dtypes or not a.is_contiguous():
                    return False
                here = a.get_device()  # -1 on a CPU
                if here != device:
                    if here < 0 or device >= 0:
                        return False
                    device = here
                a = a.data_ptr()
                if a & alignment:
                    return False
            elif type(a) is not (float if kind == _FLOAT32 else int):
                return False
            values.append(a)
        try:
            where = self._geometries.get((device, grid, block, shared_mem))
        except TypeError:  # a list
            return False
        if where is None or (self._several_devices and device != torch.cuda.current_device()):
            return False
        function, stream = self._functions[device], _stream(device)[1]
        return self._packed.launch(function, where, values, stream)

    def launch_checked(self, grid: tuple, block: tuple, args: tuple, shared_mem: int) -> None:
        """The careful way: checks everything, says what is wrong. Raises TypeError, ValueError."""
        where = (
            arguments.geometry(self.name, "grid", grid),
            arguments.geometry(self.name, "block", block),
            arguments.shared_bytes(self.name, shared_mem),
        )
        converted = arguments.convert(self.name, self.parameters, args)
        arrays = [a for a in converted if isinstance(a, ArrayArgument)]
        if arrays and not arrays[0].where.startswith("cuda"):
            raise TypeError(
                f"{self.name}: {arrays[0].parameter.label} is on {arrays[0].where}; a launch on "
                f"the GPU needs CUDA arrays"
            )
        device = int(arrays[0].where.split(":")[1]) if arrays else torch.cuda.current_device()
        values = [
            (a.address if isinstance(a, ArrayArgument) else 0) if p.pointer else a
            for p, a in zip(self.parameters, converted)
        ]
        with torch.cuda.device(device):
            if device not in self._by_device:
                self._by_device[device] = self._raw.kernel
            self._allow_shared(device, where[2])
            self._by_device[device](where[0], where[1], values, where[2], _stream(device)[0])
        if len(self._geometries) > 10_000:
            self._geometries.clear()
        if not isinstance(grid, list) and not isinstance(block, list):
            self._geometries[device, grid, block, shared_mem] = (*where[0], *where[1], where[2])
            self._functions[device] = ctypes.c_void_p(self._by_device[device].ptr)

    def _allow_shared(self, device: int, shared_mem: int) -> None:
        """Beyond 48 KB a kernel has to ask the driver. Raises ValueError if the GPU has less."""
        static = self._raw.shared_size_bytes
        if shared_mem + static <= _DEFAULT_SHARED_LIMIT or shared_mem <= self._shared_limits.get(
            device, 0
        ):
            return
        limit = torch.cuda.get_device_properties(device).shared_memory_per_block_optin - static
        if shared_mem > limit:
            raise ValueError(
                f"{self.name}: shared_mem is {shared_mem} bytes; "
                f"on this GPU a block of this kernel can have {limit}"
            )
        self._raw.max_dynamic_shared_size_bytes = shared_mem
        self._shared_limits[device] = shared_mem


_POINTER, _INT32, _FLOAT32, _INT64, _OTHER = "pointer", "int32", "float32", "int64", "other"


class _AnyDtype:
    def __contains__(self, dtype: object) -> bool:
        return True


def _plan(p: Parameter) -> tuple[int, object, int]:
    """How the short way takes a parameter: its kind, dtypes, bits an address may not have."""
    if p.pointer:
        return _POINTER, p.torch_dtypes or _AnyDtype(), p.alignment - 1
    return {7: _INT32, 13: _FLOAT32, 9: _INT64}.get(p.code, _OTHER), None, 0
