"""printf of kernels on a GPU: the driver writes to the process's stdout, not to the cell.

(In the emulator Python writes it itself.)
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from .source import Source


@contextmanager
def device_printf(source: Source) -> Iterator[None]:
    """Waits for the launches made inside, and writes what they printed to sys.stdout.

    Does nothing for a text without printf, or while a graph is captured, where nothing may wait.
    """
    if "printf" not in source.blanked or torch.cuda.is_current_stream_capturing():
        yield
        return
    torch.cuda.synchronize()  # what earlier launches print is not ours
    libc = ctypes.CDLL(None)
    sys.stdout.flush()
    libc.fflush(None)
    kept = os.dup(1)
    try:
        with tempfile.TemporaryFile() as printed:
            os.dup2(printed.fileno(), 1)
            try:
                yield
                torch.cuda.synchronize()
            finally:
                libc.fflush(None)
                os.dup2(kept, 1)
            printed.seek(0)
            sys.stdout.write(printed.read().decode(errors="replace"))
    finally:
        os.close(kept)
