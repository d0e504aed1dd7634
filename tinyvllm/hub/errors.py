"""What can go wrong on the way to a model. Every text is a sentence that says what to do next."""

import errno
import os
import re


class ModelNotAvailable(RuntimeError):
    """The model can't be had: not found, not readable, no network, no right to it."""


class DiskFull(ModelNotAvailable):
    """There is no room for the model on the disk that holds the cache."""


def as_os_error(error: BaseException) -> OSError | None:
    """The operating system's error in `error`; libraries in Rust only have it in their text."""
    if isinstance(error, OSError):
        return error
    number = re.search(r"\(os error (\d+)\)", str(error))
    return OSError(int(number[1]), os.strerror(int(number[1]))) if number else None


def is_disk_full(error: BaseException) -> bool:
    """Whether `error` means that the disk, or the user's share of it, is full."""
    cause = as_os_error(error)
    full = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
    return cause is not None and cause.errno in full


def megabytes(size: int) -> str:
    """Bytes for a person: '93 MB' (1 MB = 10^6 bytes)."""
    return f"{size / 1e6:.0f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"
