"""What can go wrong on the way to a model. Every text is a sentence that says what to do next."""

import errno


class ModelNotAvailable(RuntimeError):
    """The model can't be had: not found, not readable, no network, no right to it."""


class DiskFull(ModelNotAvailable):
    """There is no room for the model on the disk that holds the cache."""


def is_disk_full(error: BaseException) -> bool:
    """Whether `error` means a full disk or quota; libraries in Rust only have it in their text."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    text = str(error)
    return "os error 28)" in text or "No space left on device" in text


def megabytes(size: int) -> str:
    """Bytes for a person: '93 MB' (1 MB = 10^6 bytes)."""
    return f"{size / 1e6:.0f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"
