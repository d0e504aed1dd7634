"""Fills a model from the safetensors files of a Hugging Face folder, one file at a time.

Tensors are views of mapped files, converted as they are copied into the model's own; so the peak
is the model plus the pages of one tensor.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from tqdm import tqdm

from tinyvllm.weights.safetensors import SafetensorsFile, weight_map


class CheckpointError(ValueError):
    """The checkpoint's tensors are not those of the model that config.json describes."""


def load_weights(
    folder: str | Path,
    destinations: Mapping[str, torch.Tensor],
    *,
    ignore: tuple[str, ...] = (),
    progress: bool = True,
) -> None:
    """Copies every tensor of the checkpoint into the destination of the same name.

    destinations: checkpoint name -> tensor to fill, of the checkpoint's shape, any float dtype and
    device. ignore: patterns (regular expressions, whole names) of tensors that may be there and
    are not used.

    Raises CheckpointError naming tensors that are missing, unexpected or of another shape, before
    anything is copied; SafetensorsError for a file that can't be read.
    """
    files = weight_map(folder)
    ignored = {n for n in files if n not in destinations and _matches(n, ignore)}
    if missing := destinations.keys() - files.keys():
        raise CheckpointError(f"{folder} lacks {_names(missing)}.")
    if extra := files.keys() - destinations.keys() - ignored:
        raise CheckpointError(
            f"{folder} holds {_names(extra)}, for which the model of config.json has no place."
        )
    by_file: dict[Path, list[str]] = {}
    for name in destinations:
        by_file.setdefault(files[name], []).append(name)
    opened = {path: SafetensorsFile(path) for path in by_file}
    _check_shapes(folder, opened, by_file, destinations)
    total = sum(t.numel() * t.element_size() for t in destinations.values())
    with tqdm(
        total=total,
        desc="Loading weights",
        unit="B",
        unit_scale=True,
        disable=not progress,
        leave=False,
    ) as bar:
        for path, names in by_file.items():
            with opened[path] as file:
                for name in names:
                    destination = destinations[name]
                    destination.copy_(file.get_tensor(name))
                    bar.update(destination.numel() * destination.element_size())


def stored_dtypes(folder: str | Path) -> set[str]:
    """The dtypes of a checkpoint's tensors, as its files name them ("BF16", "F32", …)."""
    dtypes = set()
    for path in set(weight_map(folder).values()):
        with SafetensorsFile(path) as file:
            dtypes |= {info.dtype for info in file.tensors.values()}
    return dtypes


def _check_shapes(folder, opened, by_file, destinations) -> None:
    problems = []
    for path, names in by_file.items():
        for name in names:
            info, expected = opened[path].tensors.get(name), tuple(destinations[name].shape)
            if info is None:
                problems.append(f"{name} (the index puts it in {path.name}, which lacks it)")
            elif tuple(info.shape) != expected:
                problems.append(f"{name} has shape {list(info.shape)}, expected {list(expected)}")
            elif not info.dtype.startswith(("F", "BF")):
                problems.append(f"{name} is of dtype {info.dtype}, not a float type")
    if problems:
        shown = "; ".join(problems[:5]) + (" …" if len(problems) > 5 else "")
        raise CheckpointError(f"{folder}: {len(problems)} tensors don't fit config.json: {shown}.")


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(re.fullmatch(p, name) for p in patterns)


def _names(names) -> str:
    shown = sorted(names)
    more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
    plural = "tensors" if len(shown) > 1 else "tensor"
    return f"the {plural} {', '.join(shown[:5])}{more}"
