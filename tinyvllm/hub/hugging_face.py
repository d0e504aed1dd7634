"""Models by name from the Hugging Face hub, and clear words where one can't be had."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from tinyvllm.hub.errors import DiskFull, ModelNotAvailable, is_disk_full, megabytes
from tinyvllm.hub.progress import Progress

# What the engine reads, from the top folder only. "consolidated" is the same weights once more, in
# their authors' own format; pickled weights (.bin) can run code when they are opened.
WANTED = ["*.safetensors", "*.json", "*.jinja"]
UNWANTED = ["*/*", "consolidated*"]


def snapshot(name: str, revision: str | None, progress: Progress) -> Path:
    """The folder of `name` in the hub's own cache, up to date where the hub can be asked.

    Raises ModelNotAvailable (absent, gated, no network and nothing cached, no safetensors) or
    DiskFull.
    """
    import huggingface_hub

    cached = _cached(name, revision)
    try:
        commit, size = _look_up(name, revision)
    except ModelNotAvailable as error:
        if cached is None:
            raise
        progress.say(f"{error} Using the copy of {name} that is on this machine.")
        return cached
    if cached is not None and cached.name == commit:
        return cached
    progress.say(f"Downloading {name} ({megabytes(size)}) from the Hugging Face hub.")
    with _sentences_for(name, revision), _bars(progress):
        folder = huggingface_hub.snapshot_download(
            name, revision=revision, allow_patterns=WANTED, ignore_patterns=UNWANTED
        )
    from tinyvllm.hub.resolve import check_folder

    check_folder(Path(folder))
    return Path(folder)


def download(name: str, revision: str | None, folder: Path, progress: Progress) -> str:
    """Download `name` as plain files into `folder`, an empty one; returns the commit."""
    import huggingface_hub

    commit, size = _look_up(name, revision)
    progress.say(f"Downloading {name} ({megabytes(size)}) from the Hugging Face hub.")
    with _sentences_for(name, revision), _bars(progress):
        huggingface_hub.snapshot_download(
            name,
            revision=commit,
            local_dir=folder,
            allow_patterns=WANTED,
            ignore_patterns=UNWANTED,
        )
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # the hub library's notes to itself
    from tinyvllm.hub.resolve import check_folder

    check_folder(folder)
    return commit


def _cached(name: str, revision: str | None) -> Path | None:
    import huggingface_hub
    from huggingface_hub.errors import HFValidationError

    from tinyvllm.hub.resolve import check_folder

    try:
        folder = huggingface_hub.snapshot_download(
            name,
            revision=revision,
            local_files_only=True,
            allow_patterns=WANTED,
            ignore_patterns=UNWANTED,
        )
        check_folder(Path(folder))
    except (OSError, HFValidationError, ModelNotAvailable):
        return None
    return Path(folder)


def _look_up(name: str, revision: str | None) -> tuple[str, int]:
    """The commit of `name` and the bytes of its wanted files, if its weights can be read here."""
    import huggingface_hub

    with _sentences_for(name, revision):
        info = huggingface_hub.HfApi().model_info(
            name, revision=revision, files_metadata=True, timeout=15
        )
    files = {file.rfilename: file.size or 0 for file in info.siblings or []}
    wanted = {
        file: size
        for file, size in files.items()
        if any(fnmatch(file, pattern) for pattern in WANTED)
        and not any(fnmatch(file, pattern) for pattern in UNWANTED)
    }
    if not any(file.endswith(".safetensors") for file in wanted):
        others = [file for file in files if file.endswith((".bin", ".gguf", ".pt", ".onnx"))]
        has = f"only {others[0]} and the like" if others else "no weights at all"
        raise ModelNotAvailable(
            f"{name} on the Hugging Face hub has no weights as .safetensors ({has}), which is the "
            "only format that tinyvllm reads. Look for another copy of this model there."
        )
    if "config.json" not in wanted:
        raise ModelNotAvailable(
            f"{name} on the Hugging Face hub has no config.json, so it is not a whole model "
            "(an adapter, perhaps). Look for the model that it belongs to."
        )
    return info.sha or "unknown", sum(wanted.values())


@contextmanager
def _bars(progress: Progress) -> Iterator[None]:
    from huggingface_hub import utils

    if progress.shown or utils.are_progress_bars_disabled():
        yield
        return
    utils.disable_progress_bars()
    try:
        yield
    finally:
        utils.enable_progress_bars()


@contextmanager
def _sentences_for(name: str, revision: str | None) -> Iterator[None]:
    """Turn whatever the hub's library raises into sentences about `name`."""
    try:
        yield
    # Its network errors come from a library of its choice, which has changed before.
    except Exception as error:
        if is_disk_full(error):
            raise DiskFull(
                f"The disk became full while {name} was downloaded. Free some space, or set "
                "HF_HOME (the hub's cache) to a folder on another disk."
            ) from error
        raise ModelNotAvailable(_sentence(error, name, revision)) from error


def _sentence(error: Exception, name: str, revision: str | None) -> str:
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return (
            f"{name} is gated: its authors want you to accept their terms first. Do so on its page "
            "on the Hugging Face hub, then log in here with `hf auth login` (or set HF_TOKEN)."
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return (
            f"There is no model {name} on the Hugging Face hub, and no folder of that name here. "
            "Check the spelling; if it is private, log in with `hf auth login` (or set HF_TOKEN)."
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{name} has no revision {revision!r} (a branch, a tag or a commit)."
    if isinstance(error, errors.HFValidationError):
        return f"{name!r} can't be the name of a model on the Hugging Face hub: {error}."
    if isinstance(error, errors.OfflineModeIsEnabled):
        return f"{name} can't be looked up: HF_HUB_OFFLINE is set."
    if isinstance(error, errors.HfHubHTTPError):
        return f"The Hugging Face hub refused {name}: {error}."
    reason = f"{type(error).__name__}: {error}".strip().rstrip(".")
    return f"{name} can't be fetched: the Hugging Face hub can't be reached ({reason})."
