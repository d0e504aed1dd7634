"""From what the user calls a model to a folder: the default, a folder of theirs, or a hub name."""

import json
import os
import re
from pathlib import Path

from tinyvllm.hub.default_model import DEFAULT_MODEL, NAME, fetch_default_model
from tinyvllm.hub.errors import ModelNotAvailable

HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")


def resolve_model(model: str | Path | None = None, *, progress: bool = True) -> Path:
    """The Hugging Face folder (config.json, *.safetensors, tokenizer.json) of `model`, on disk.

    `model` is None or the default model's name (fetched once, then at once and offline), an
    existing folder, or "organisation/name" on the hub, "@revision" behind it if need be. A folder
    wins over a name. `progress=False` prints nothing. Raises ModelNotAvailable, in sentences.
    """
    if model is None:
        return fetch_default_model(progress)
    text = os.fspath(model)
    folder = Path(text).expanduser()
    if text and folder.is_dir():
        check_folder(folder)
        return folder.absolute()
    if text and folder.exists():
        raise ModelNotAvailable(
            f"{text} is a file, but a model is a folder: with config.json, tokenizer.json and the "
            "weights as .safetensors in it."
        )
    if text.casefold() in (DEFAULT_MODEL.casefold(), NAME.casefold()):
        return fetch_default_model(progress)
    if isinstance(model, Path) or not HUB_NAME.fullmatch(text) or text.startswith((".", "~")):
        raise ModelNotAvailable(
            f"There is no folder {text!r}. A model is a folder, or a name on the Hugging Face hub "
            f"such as 'Qwen/Qwen3-0.6B' (organisation/name). The default is {DEFAULT_MODEL}."
        )
    from tinyvllm.hub.hugging_face import snapshot
    from tinyvllm.hub.progress import Progress

    name, _, revision = text.partition("@")
    return snapshot(name, revision or None, Progress(progress))


def check_folder(folder: Path) -> None:
    """Raise ModelNotAvailable unless `folder` has config.json and its weights as safetensors."""
    if not (folder / "config.json").is_file():
        raise ModelNotAvailable(
            f"{folder} has no config.json, so it is not the folder of a Hugging Face model."
        )
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelNotAvailable(f"{index} can't be read: {error!r}. Fetch it anew.") from error
        missing = sorted(shard for shard in shards if not (folder / shard).is_file())
        if missing:
            raise ModelNotAvailable(
                f"{folder} lacks {len(missing)} of the {len(shards)} files of weights that its "
                f"index names ({missing[0]} is the first). Fetch them, or the whole folder anew."
            )
    elif not (folder / "model.safetensors").is_file():
        raise ModelNotAvailable(f"{folder} has no model.safetensors{other_weights(folder)}.")


def other_weights(folder: Path) -> str:
    others = sorted(
        path.name for path in folder.iterdir() if path.suffix in (".bin", ".gguf", ".pt", ".pth")
    )
    if not others:
        return " and no model.safetensors.index.json: its weights are missing"
    return f", only {others[0]}: convert it to safetensors first (save_pretrained does)"
