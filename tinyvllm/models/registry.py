"""Which class implements an architecture named in config.json."""

from tinyvllm.config import ConfigError
from tinyvllm.models.llama import LlamaForCausalLM

MODELS = {"LlamaForCausalLM": LlamaForCausalLM}


def model_class(architecture: str) -> type:
    """Raises ConfigError for an architecture that isn't here, naming those that are."""
    if architecture not in MODELS:
        raise ConfigError(
            f"The architecture {architecture!r} is not supported; these are: {', '.join(MODELS)}."
        )
    return MODELS[architecture]
