"""Each broken file gets its own error, with words; good files are mapped, not copied."""

import gc
import json
import struct

import pytest
import torch
from safetensors.torch import save_file

from tinyvllm.weights import safetensors as st
from tinyvllm.weights.safetensors import SafetensorsFile, weight_map

U8 = '{"dtype":"U8","shape":[2],"data_offsets":[0,2]}'


def entry(dtype="U8", shape="[2]", offsets="[0,2]", more=""):
    return f'{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}{more}}}'


def file_of(header: str | bytes, data: bytes = b"ab", size: int | None = None) -> bytes:
    header = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(header) if size is None else size) + header + data


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


# what is wrong -> (the file, the error, words that it must say)
BROKEN = {
    "nothing in it": (b"", st.FileTooShort, "0 in all"),
    "five bytes": (b"12345", st.FileTooShort, "5 in all"),
    "a header of 100 MB and one byte": (
        file_of("{}", size=100_000_001),
        st.HeaderTooLarge,
        "100,000,001",
    ),
    "a web page": (b"<!DOCTYPE html>", st.HeaderTooLarge, "no safetensors file"),
    "a header longer than the file": (file_of("{}", b"", 3), st.HeaderTruncated, "the file has 2"),
    "an empty header": (file_of("", b""), st.HeaderStart, "must begin with"),
    "a list for a header": (file_of("[]"), st.HeaderStart, "must begin with"),
    "a blank before the brace": (file_of(f' {{"a":{U8}}}'), st.HeaderStart, "b' '"),
    "bytes that are no text": (file_of(b'{"\xff":1}'), st.HeaderNotUTF8, "byte 2"),
    "JSON that stops": (file_of('{"a":'), st.HeaderNotJSON, "not JSON"),
    "zero bytes after the JSON": (file_of(f'{{"a":{U8}}}\0\0'), st.HeaderNotJSON, "not JSON"),
    "NaN": (file_of('{"a":NaN}'), st.HeaderNotJSON, "NaN"),
    "a number out of range": (file_of('{"a":1e999}'), st.HeaderNotJSON, "out of range"),
    "half a surrogate pair": (file_of(f'{{"\\ud800":{U8}}}'), st.HeaderNotJSON, "surrogate"),
    "126 lists in a field": (
        file_of('{"a":' + entry(more=f',"x":{nested(126)}') + "}"),
        st.HeaderTooDeep,
        "more than 127",
    ),
    "100,000 lists": (file_of('{"a":' + nested(100_000) + "}"), st.HeaderTooDeep, "more than 127"),
    "one name twice": (file_of(f'{{"a":{U8},"a":{U8}}}'), st.DuplicateKey, "'a'"),
    "one name twice, spelled differently": (
        file_of(f'{{"a":{U8},"\\u0061":{U8}}}'),
        st.DuplicateKey,
        "'a'",
    ),
    "one field twice": (
        file_of('{"a":' + entry(more=',"dtype":"U8"') + "}"),
        st.DuplicateKey,
        "'dtype'",
    ),
    "metadata that is no object": (file_of('{"__metadata__":[]}'), st.InvalidMetadata, "text"),
    "a number in the metadata": (file_of('{"__metadata__":{"a":1}}'), st.InvalidMetadata, "text"),
    "a list for an entry": (file_of('{"a":["U8",[2],[0,2]]}'), st.InvalidEntry, "object"),
    "no shape": (
        file_of('{"a":{"dtype":"U8","data_offsets":[0,2]}}'),
        st.InvalidEntry,
        "lacks shape",
    ),
    "a dtype that is no text": (
        file_of('{"a":{"dtype":8,"shape":[2],"data_offsets":[0,2]}}'),
        st.InvalidEntry,
        "dtype",
    ),
    **{
        f"{number} in the shape": (
            file_of('{"a":' + entry(shape=f"[{number}]", offsets="[0,1]") + "}", b"a"),
            st.InvalidEntry,
            "shape",
        )
        for number in ("1.0", "-1", "true", '"1"', "null", str(2**64), "-0")
    },
    "three offsets": (file_of('{"a":' + entry(offsets="[0,2,2]") + "}"), st.InvalidEntry, "two"),
    "an unknown dtype": (file_of('{"a":' + entry("F31") + "}"), st.UnknownDtype, "'F31'"),
    "2**64 elements": (
        file_of('{"a":' + entry(shape=f"[{2**32},{2**32}]", offsets="[0,0]") + "}", b""),
        st.SizeOverflow,
        "elements",
    ),
    "2**64 bits": (
        file_of('{"a":' + entry("F64", f"[{2**58}]", "[0,0]") + "}", b""),
        st.SizeOverflow,
        "bits",
    ),
    "4 MB in 2 bytes": (
        file_of('{"a":' + entry("F32", "[1000,1000]") + "}"),
        st.SizeMismatch,
        "4,000,000",
    ),
    "half a byte": (
        file_of('{"a":' + entry("F4", "[3]") + "}"),
        st.SizeMismatch,
        "12 bits",
    ),
    "offsets from the end to the start": (
        file_of('{"a":' + entry(shape="[0]", offsets="[2,0]") + "}"),
        st.OffsetsReversed,
        "ends at 0",
    ),
    "an overlap": (
        file_of(f'{{"a":{U8},"b":{entry(offsets="[1,3]")}}}', b"abc"),
        st.OffsetsOverlap,
        "'b'",
    ),
    "a gap": (
        file_of(f'{{"a":{U8},"b":{entry(offsets="[3,5]")}}}', b"abcde"),
        st.OffsetsGap,
        "'b'",
    ),
    "offsets far outside": (
        file_of(f'{{"a":{U8},"b":{entry(offsets="[9000,9002]")}}}'),
        st.OffsetsOutOfRange,
        "9,000",
    ),
    "half of the data": (file_of(f'{{"a":{U8}}}', b"a"), st.DataTruncated, "completely"),
    "a byte too many": (file_of(f'{{"a":{U8}}}', b"abc"), st.TrailingData, "1 bytes after"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_is_refused_by_name_and_reason(tmp_path, what):
    data, error, words = BROKEN[what]
    path = tmp_path / "broken.safetensors"
    path.write_bytes(data)
    with pytest.raises(st.SafetensorsError) as caught:
        SafetensorsFile(path)
    assert type(caught.value) is error
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


def test_every_error_of_a_file_has_a_broken_file_here():
    of_files = {
        c for c in vars(st).values() if isinstance(c, type) and issubclass(c, st.SafetensorsError)
    }
    of_files -= {st.SafetensorsError, st.TensorNotFound, st.NotInTorch}
    of_files -= {st.WeightsNotFound, st.InvalidIndex}
    assert of_files == {error for _, error, _ in BROKEN.values()}


def test_what_the_format_allows_is_read(tmp_path):
    path = tmp_path / "odd.safetensors"
    deep = entry(more=f',"x":{nested(125)},"y":1e308')  # unknown fields, as deep as is allowed
    path.write_bytes(file_of('{"__metadata__":null, "\\ud83d\\ude00":' + deep + "} \t\r\n"))
    with SafetensorsFile(path) as file:
        assert list(file.tensors) == ["😀"]
        assert file.metadata == {}
        assert file.get_tensor("😀").tolist() == [97, 98]


@pytest.fixture
def model(tmp_path):
    tensors = {"a": torch.arange(6).short().reshape(2, 3), "b": torch.tensor([1.5, -2.0])}
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    return tmp_path, tensors


def test_two_reads_of_a_tensor_share_memory_and_the_file_never_changes(model):
    folder, _ = model
    before = (folder / "model.safetensors").read_bytes()
    with SafetensorsFile(folder / "model.safetensors") as file:
        one, two = file.get_tensor("b"), file.get_tensor("b")
    assert one.data_ptr() == two.data_ptr()
    one[0] = 99
    assert two[0] == 99
    assert (folder / "model.safetensors").read_bytes() == before


def test_tensors_outlive_their_file(model):
    folder, tensors = model
    with SafetensorsFile(folder / "model.safetensors") as file:
        kept = file.get_tensor("a")
    del file
    gc.collect()
    assert torch.equal(kept, tensors["a"])


def test_a_closed_file_and_an_unknown_name_say_so(model):
    file = SafetensorsFile(model[0] / "model.safetensors")
    with pytest.raises(st.TensorNotFound, match="no tensor 'c'; it has b, a"):
        file.get_tensor("c")
    file.close()
    with pytest.raises(st.SafetensorsError, match="is closed"):
        file.get_tensor("a")


@pytest.mark.parametrize(
    ("dtype", "shape", "nbytes"),
    [("F6_E2M3", "[4]", 3), ("F4", "[2,3]", 3), ("U8", f"[0,{2**63}]", 0)],
)
def test_a_legal_tensor_that_torch_lacks_is_named(tmp_path, dtype, shape, nbytes):
    path = tmp_path / "model.safetensors"
    path.write_bytes(file_of(f'{{"t":{entry(dtype, shape, f"[0,{nbytes}]")}}}', bytes(nbytes)))
    with SafetensorsFile(path) as file, pytest.raises(st.NotInTorch, match="tensor 't'"):
        file.get_tensor("t")


def test_a_tensor_that_is_not_aligned_is_read_right(tmp_path):
    path = tmp_path / "model.safetensors"
    text = '{"a":' + entry("F32", "[2]", "[0,8]") + "}"
    text += " " * (-len(text) % 8 + 1)  # one blank too many
    path.write_bytes(file_of(text, struct.pack("<2f", 1.5, -2.0)))
    with SafetensorsFile(path) as file:
        tensor = file.get_tensor("a")
    assert file.data_start % 4 == 1
    assert tensor.tolist() == [1.5, -2.0]
    assert tensor.data_ptr() % 4 == 0


# --- which file holds which tensor -----------------------------------------------------------


def write_index(folder, index) -> None:
    text = index if isinstance(index, str) else json.dumps(index)
    (folder / "model.safetensors.index.json").write_text(text)


def test_one_file_holds_everything(model):
    path = model[0] / "model.safetensors"
    assert weight_map(model[0]) == {"a": path, "b": path}


def test_an_index_says_which_shard_and_wins_over_the_single_file(model):
    folder, tensors = model
    save_file({"a": tensors["a"]}, folder / "shard-1.safetensors")
    save_file({"b": tensors["b"]}, folder / "shard-2.safetensors")
    write_index(folder, {"weight_map": {"a": "shard-1.safetensors", "b": "shard-2.safetensors"}})
    assert weight_map(folder) == {
        "a": folder / "shard-1.safetensors",
        "b": folder / "shard-2.safetensors",
    }


@pytest.mark.parametrize(
    "index",
    ["", "{", "[]", "{}", '{"weight_map": []}', '{"weight_map": {"a": 5}}', '{"weight_map": null}']
    + ["[" * 100_000, '"weight_map"', '{"weight_map": "x"}']
    + [{"weight_map": {"a": name}} for name in ("../model.safetensors", "/etc/hosts", "", "..")],
    ids=lambda index: str(index)[:40],
)
def test_an_index_that_is_none_or_leaves_the_folder_is_refused(model, index):
    write_index(model[0], index)
    with pytest.raises(st.InvalidIndex, match=r"index\.json"):
        weight_map(model[0])


def test_a_missing_shard_is_named(model):
    write_index(model[0], {"weight_map": {"a": "shard-7.safetensors"}})
    with pytest.raises(st.WeightsNotFound, match=r"shard-7\.safetensors"):
        weight_map(model[0])


def test_a_folder_without_weights_says_what_it_has(tmp_path):
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(st.WeightsNotFound, match=r"it has pytorch_model\.bin"):
        weight_map(tmp_path)
    with pytest.raises(st.WeightsNotFound):
        weight_map(tmp_path / "nowhere")
