"""tinyvllm: a small vLLM, built piece by piece in Jupyter chapters.

    from tinyvllm import LLM, SamplingParams
    for out in LLM().generate(["The capital of France is"], SamplingParams(temperature=0)):
        print(out.outputs[0].text)

The package reads in the order in which a request flows: `llm` → `tokenizer` → `engine/` →
`models/` → `ops/` → `kernels/`. Names are imported on first use, so that `python -m tinyvllm
doctor` answers on a machine where torch itself is what is broken.
"""

import os
from importlib import import_module

__version__ = "0.1.0"

_EXPORTS = {
    "LLM": "tinyvllm.llm",
    "SamplingParams": "tinyvllm.sampling_params",
    "RequestOutput": "tinyvllm.outputs",
    "CompletionOutput": "tinyvllm.outputs",
    "LLMEngine": "tinyvllm.engine.llm_engine",
}
__all__ = ["LLM", "CompletionOutput", "LLMEngine", "RequestOutput", "SamplingParams", "__version__"]


def __getattr__(name: str):
    if name not in _EXPORTS:
        raise AttributeError(f"module 'tinyvllm' has no attribute {name!r}")
    value = getattr(import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted(__all__)


# A student's promotion that was killed between two files is finished before anything else is
# imported from the package (tinyvllm.course.journal).
if os.path.exists(os.path.join(__path__[0], os.pardir, ".tinyvllm", "promotion.json")):
    import_module("tinyvllm.course.journal").recover_here()
