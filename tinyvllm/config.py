"""ModelConfig: config.json of a Hugging Face folder, as the engine needs it.

Every field of the file is either honoured, or known to change nothing at inference, or refused by
name: a field that changes the computation and is ignored would give a wrong model without a word.
"""

import json
from dataclasses import dataclass
from pathlib import Path

# Fields that change nothing in a forward pass.
INERT = {
    "architectures", "attention_dropout", "auto_map", "bos_token_id", "chunk_size_feed_forward",
    "dtype", "eos_token_id", "hidden_dropout", "id2label", "initializer_range", "is_decoder",
    "is_encoder_decoder", "is_llama_config", "keys_to_ignore_at_inference", "label2id",
    "max_window_layers", "model_type", "name_or_path", "output_attentions", "output_hidden_states",
    "pad_token_id", "problem_type", "return_dict", "sep_token_id", "tokenizer_class", "torch_dtype",
    "transformers.js_config", "transformers_version", "unsloth_fixed", "unsloth_version",
    "use_cache", "pretraining_tp", "residual_dropout", "resid_pdrop", "embd_pdrop",
}  # fmt: skip
# Fields that change the computation, with the values for which they don't.
ONLY = {
    "hidden_act": ("silu", "swish"),
    "rope_interleaved": (False, None),
    "partial_rotary_factor": (1, 1.0, None),
    "sliding_window": (None,),
    "use_sliding_window": (False, None),
    "quantization_config": (None,),
    "attention_multiplier": (1, None),
    "logit_scale": (1, None),
    "final_logit_softcapping": (None,),
    "attn_logit_softcapping": (None,),
}
HONOURED = {
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "rms_norm_eps", "rope_theta", "rope_scaling",
    "rope_parameters", "max_position_embeddings", "tie_word_embeddings", "attention_bias",
    "mlp_bias",
}  # fmt: skip


class ConfigError(ValueError):
    """config.json is missing, unreadable, or asks for something the engine doesn't do."""


@dataclass(frozen=True)
class RopeScaling:
    """Llama 3's stretching of long wavelengths (rope_type "llama3"); lengths in tokens."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True)
class ModelConfig:
    """The shape of a model. Sizes in elements, lengths in tokens."""

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling | None
    max_position_embeddings: int
    tie_word_embeddings: bool
    attention_bias: bool
    mlp_bias: bool

    @classmethod
    def from_folder(cls, folder: str | Path) -> "ModelConfig":
        """Reads `folder/config.json`. Raises ConfigError."""
        return cls.from_dict(read_json(Path(folder) / "config.json"))

    @classmethod
    def from_dict(cls, raw: dict) -> "ModelConfig":
        """Builds the config from the parsed file. Raises ConfigError."""
        refuse_unknown(raw)
        heads = _positive(raw, "num_attention_heads")
        hidden = _positive(raw, "hidden_size")
        if not raw.get("head_dim") and hidden % heads:
            raise ConfigError(
                f"config.json: hidden_size {hidden} can't be split over {heads} heads, and there "
                f"is no head_dim."
            )
        kv_heads = _positive(raw, "num_key_value_heads", heads)
        if heads % kv_heads:
            raise ConfigError(
                f"config.json: {heads} attention heads can't share {kv_heads} key/value heads "
                f"evenly."
            )
        head_dim = _positive(raw, "head_dim", hidden // heads)
        if head_dim % 2:
            raise ConfigError(f"config.json: head_dim {head_dim} is odd; RoPE turns pairs.")
        architectures = raw.get("architectures") or ["LlamaForCausalLM"]
        theta, scaling = rope_of(raw)
        return cls(
            architecture=architectures[0],
            vocab_size=_positive(raw, "vocab_size"),
            hidden_size=hidden,
            intermediate_size=_positive(raw, "intermediate_size"),
            num_hidden_layers=_positive(raw, "num_hidden_layers"),
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
            head_dim=head_dim,
            rms_norm_eps=float(raw.get("rms_norm_eps", 1e-6)),
            rope_theta=theta,
            rope_scaling=scaling,
            max_position_embeddings=_positive(raw, "max_position_embeddings", 2048),
            tie_word_embeddings=bool(raw.get("tie_word_embeddings", False)),
            attention_bias=bool(raw.get("attention_bias", False)),
            mlp_bias=bool(raw.get("mlp_bias", False)),
        )

    @property
    def q_size(self) -> int:
        return self.num_attention_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.num_key_value_heads * self.head_dim


def refuse_unknown(raw: dict) -> None:
    """Raises ConfigError naming every field that would change the computation unseen."""
    problems = []
    for name, value in raw.items():
        if name in HONOURED or name in INERT or name.startswith("_"):
            continue
        if name in ONLY:
            if value not in ONLY[name]:
                problems.append(f"{name} = {value!r} (only {ONLY[name][0]!r} is supported)")
        elif value not in (None, False):
            problems.append(f"{name} = {value!r} (unknown)")
    if problems:
        raise ConfigError(
            "config.json asks for what this engine doesn't do: "
            + "; ".join(problems)
            + ". If a field changes nothing at inference, remove it from the file."
        )


def rope_of(raw: dict) -> tuple[float, RopeScaling | None]:
    """(theta, scaling) from rope_theta and rope_scaling (old) or rope_parameters (new)."""
    rope = dict(raw.get("rope_scaling") or {}) | dict(raw.get("rope_parameters") or {})
    theta = float(rope.pop("rope_theta", raw.get("rope_theta", 10000.0)))
    kind = rope.pop("rope_type", rope.pop("type", "default"))
    rope.pop("type", None)
    if float(rope.pop("partial_rotary_factor", 1.0)) != 1.0:
        raise ConfigError("config.json: partial_rotary_factor other than 1 is not supported.")
    if kind == "default":
        return theta, None
    if kind != "llama3":
        raise ConfigError(
            f"config.json: RoPE scaling of type {kind!r} is not supported; 'default' and "
            f"'llama3' are."
        )
    names = RopeScaling.__dataclass_fields__
    if missing := [n for n in names if n not in rope]:
        raise ConfigError(f"config.json: llama3 RoPE scaling lacks {', '.join(missing)}.")
    if extra := [n for n in rope if n not in names]:
        raise ConfigError(
            f"config.json: llama3 RoPE scaling has unknown fields: {', '.join(extra)}."
        )
    return theta, RopeScaling(**{n: rope[n] for n in names})


def read_json(path: Path) -> dict:
    """The JSON object in a file. Raises ConfigError in words."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"{path.parent} has no {path.name}: is it a Hugging Face folder?"
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} can't be read as JSON: {error}.") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path} holds a JSON {type(value).__name__}, not an object.")
    return value


def _positive(raw: dict, name: str, default: int | None = None) -> int:
    value = raw.get(name)
    if value is None:
        value = default
    if value is None:
        raise ConfigError(f"config.json lacks {name}.")
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"config.json: {name} must be a positive integer; it is {value!r}.")
    return value
