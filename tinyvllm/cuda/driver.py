"""A launch by the CUDA driver itself: all arguments packed by one call, and one call that launches.

CuPy makes an object of every argument, a quarter of a microsecond each. Here the arguments lie in
memory as cuLaunchKernel wants them, eight bytes apart, and a table of where each begins is made
once (https://docs.nvidia.com/cuda/cuda-driver-api, cuLaunchKernel).
"""

import ctypes
import struct
import threading
from collections.abc import Sequence
from functools import lru_cache

FORMATS = {"pointer": "Q", "int32": "i4x", "float32": "f4x", "int64": "q"}


class PackedLaunch:
    """One kernel's arguments, and its launch.

    kinds: of the parameters, in order ("pointer", "int32", "float32", "int64").
    """

    def __init__(self, kinds: Sequence[str]):
        self._struct = struct.Struct("<" + "".join(FORMATS[kind] for kind in kinds))
        self._lock = threading.Lock()
        self._bytes = ctypes.create_string_buffer(max(8, self._struct.size))
        begin = ctypes.addressof(self._bytes)
        self._table = (ctypes.c_void_p * max(1, len(kinds)))(
            *(begin + 8 * i for i in range(len(kinds)))
        )

    def pack(self, values: Sequence) -> bool:
        """Puts the values into memory; False if one is out of its type's range."""
        try:
            self._struct.pack_into(self._bytes, 0, *values)
        except (struct.error, OverflowError):
            return False
        return True

    def launch(self, function, where: tuple, values: Sequence, stream) -> bool:
        """Launches; False, and nothing is launched, if a value or the driver refuses.

        function, stream: ctypes.c_void_p; where: grid, block and bytes of dynamic shared memory,
        seven integers. The driver copies the arguments before it returns.
        """
        with self._lock:  # another thread must not pack in between
            return self.pack(values) and not _driver().cuLaunchKernel(
                function, *where, stream, self._table, None
            )

    def values(self) -> bytes:
        """What is packed, eight bytes a parameter."""
        return self._bytes.raw[: self._struct.size]


@lru_cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")
