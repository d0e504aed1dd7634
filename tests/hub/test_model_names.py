"""What resolve_model does with a folder, a file, and with names that can't be names."""

import json

import pytest

from tinyvllm.hub import ModelNotAvailable, resolve_model


@pytest.fixture
def folder(tmp_path):
    """A folder that has what a model needs."""
    made = tmp_path / "my-model"
    made.mkdir()
    (made / "config.json").write_text("{}")
    (made / "model.safetensors").write_bytes(b"")
    return made


def shard(folder, names):
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {f"layer.{i}.weight": name for i, name in enumerate(names)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for name in names:
        (folder / name).write_bytes(b"")


@pytest.mark.parametrize("kind", [str, lambda path: path])
def test_a_folder_is_itself(folder, kind):
    assert resolve_model(kind(folder)) == folder


def test_a_relative_folder_and_one_below_home_become_absolute(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("HOME", str(folder.parent))
    for name in ("my-model", "./my-model", "~/my-model"):
        assert resolve_model(name) == folder


def test_a_folder_wins_over_the_same_name_on_the_hub(folder, monkeypatch):
    monkeypatch.chdir(folder.parent.parent)
    assert resolve_model(f"{folder.parent.name}/my-model") == folder


def test_sharded_weights_are_complete_when_every_shard_is_there(folder):
    shard(folder, ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"])
    assert resolve_model(folder) == folder
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ModelNotAvailable, match=r"lacks 1 of the 2 files .*\(model-00002-of-00002"):
        resolve_model(folder)


@pytest.mark.parametrize("text", ["not json", "{}", "[]", '{"weight_map": 1}'])
def test_an_unreadable_index_is_named(folder, text):
    (folder / "model.safetensors.index.json").write_text(text)
    with pytest.raises(ModelNotAvailable, match=r"index\.json can't be read"):
        resolve_model(folder)


def test_a_folder_without_config_is_no_model(folder):
    (folder / "config.json").unlink()
    with pytest.raises(ModelNotAvailable, match=r"has no config\.json"):
        resolve_model(folder)


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        (None, "its weights are missing"),
        ("pytorch_model.bin", r"only pytorch_model\.bin: convert it to safetensors"),
        ("model.Q4_1.gguf", r"only model\.Q4_1\.gguf: convert it"),
    ],
)
def test_a_folder_without_safetensors_is_told_what_it_has_instead(folder, other, complaint):
    (folder / "model.safetensors").unlink()
    if other:
        (folder / other).write_bytes(b"")
    with pytest.raises(ModelNotAvailable, match=complaint):
        resolve_model(folder)


def test_a_file_is_not_a_model(folder):
    with pytest.raises(ModelNotAvailable, match="is a file, but a model is a folder"):
        resolve_model(folder / "model.safetensors")


@pytest.mark.parametrize(
    "name", ["", "gpt2", "./none", "../none/x", "/none/such", "~/none/x", "a/b/c", "a b/c", "a/b@"]
)
def test_what_is_neither_folder_nor_name_is_told_what_a_name_looks_like(name):
    with pytest.raises(ModelNotAvailable, match=r"no folder .*organisation/name.*SmolLM2"):
        resolve_model(name)


def test_a_path_is_never_looked_up_on_the_hub(tmp_path, monkeypatch):
    from pathlib import Path

    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotAvailable, match="There is no folder 'org/name'"):
        resolve_model(Path("org/name"))
