"""The GGUF reader against files that the `gguf` package wrote."""

import struct

import gguf
import numpy as np
import pytest
import tiny_llama_gguf as tiny
from gguf import GGMLQuantizationType as Type

from tinyvllm.hub.gguf import GGUF, GGUFError


@pytest.fixture(scope="module")
def tiny_gguf(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    tiny.write_gguf(path)
    return path.read_bytes()


@pytest.mark.parametrize("kind", [Type.F32, Type.F16, Type.Q8_0, Type.Q4_1])
def test_every_tensor_has_the_bits_that_the_gguf_package_dequantises(tmp_path, kind):
    stored = tiny.write_gguf(tmp_path / "tiny.gguf", matrices=kind)
    file = GGUF(tmp_path / "tiny.gguf")
    assert set(file.tensors) == set(stored)
    for name, expected in stored.items():
        actual = file.tensor(name)
        assert actual.dtype == np.float32 and actual.shape == expected.shape, name
        np.testing.assert_array_equal(actual.view(np.uint32), expected.view(np.uint32), name)


def test_bytes_and_a_path_read_the_same(tmp_path, tiny_gguf):
    (tmp_path / "tiny.gguf").write_bytes(tiny_gguf)
    from_path, from_bytes = GGUF(tmp_path / "tiny.gguf"), GGUF(tiny_gguf)
    np.testing.assert_array_equal(
        from_path.tensor("blk.1.attn_v.weight"), from_bytes.tensor("blk.1.attn_v.weight")
    )


def test_a_tensor_is_a_writable_array_of_its_own(tiny_gguf):
    file = GGUF(tiny_gguf)
    first = file.tensor("output_norm.weight")
    first[:] = 0
    assert file.tensor("output_norm.weight").any()


def test_metadata_of_every_type_comes_back_as_it_was_written(tmp_path):
    writer = gguf.GGUFWriter(str(tmp_path / "kv.gguf"), "llama")
    kinds = {
        "uint8": 200, "int8": -100, "uint16": 60000, "int16": -30000, "uint32": 4_000_000_000,
        "int32": -2_000_000_000, "uint64": 2**63, "int64": -(2**62), "float32": 0.5,
        "float64": 1 / 3, "bool": True, "string": "naïve 日本 🙂",
    }  # fmt: skip
    for kind, value in kinds.items():
        getattr(writer, f"add_{kind}")(f"a.{kind}", value)
    writer.add_array("a.numbers", [1, -2, 3])
    writer.add_array("a.words", ["ein", "", "zwei"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    metadata = GGUF(tmp_path / "kv.gguf").metadata
    assert {kind: metadata[f"a.{kind}"] for kind in kinds} == kinds
    assert metadata["a.numbers"].tolist() == [1, -2, 3]
    assert metadata["a.words"] == ["ein", "", "zwei"]


def test_a_file_cut_anywhere_is_called_truncated(tiny_gguf):
    for length in range(4, len(tiny_gguf), 997):
        with pytest.raises(GGUFError, match="truncated"):
            file = GGUF(tiny_gguf[:length])
            for name in file.tensors:
                file.tensor(name)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "no GGUF file"),
        (b"PK\x03\x04 a zip file", "no GGUF file"),
        (b"GGUF" + struct.pack("<I", 1), "version 1"),
        (b"GGUF" + struct.pack(">I", 3), "version"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**60), "truncated"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<I", 99), "type 99"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"\xff" + struct.pack("<I", 0), "UTF-8"),
    ],
)
def test_what_is_no_gguf_file_is_refused_with_the_reason(tmp_path, content, complaint):
    (tmp_path / "bad.gguf").write_bytes(content)
    for source in (content, tmp_path / "bad.gguf"):
        with pytest.raises(GGUFError, match=complaint):
            GGUF(source)


def test_an_unknown_tensor_type_is_named_with_the_known_ones(tmp_path):
    tiny.write_gguf(tmp_path / "tiny.gguf", matrices=Type.Q5_0)
    with pytest.raises(GGUFError, match=r"blk\.0\.ffn_up\.weight has type 6.*Q4_1"):
        GGUF(tmp_path / "tiny.gguf").tensor("blk.0.ffn_up.weight")
