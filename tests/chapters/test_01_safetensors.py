"""Chapter 01: the parts of the safetensors reader, each against files made by other means."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

from tinyvllm.course import expect


def file_of(header: bytes, data: bytes = b"", size: int | None = None) -> bytes:
    """A file made by hand: `size` is what the length claims, the true length by default."""
    return struct.pack("<Q", len(header) if size is None else size) + header + data


def result_of(fn, what: str, hint: str = ""):
    """`fn()`; where it should have worked, words instead of its exception."""
    try:
        return fn()
    except NotImplementedError:
        raise
    except Exception as error:
        words = f"{what}:\n  nothing is wrong here, but {type(error).__name__} was raised: {error}"
        raise AssertionError(words + (f"\n  hint: {hint}" if hint else "")) from error


# --- 1.1 -------------------------------------------------------------------------------------


def test_1_1_header_and_data_of_a_small_file():
    from tinyvllm.weights.safetensors import split_header

    header = b'{"w":{"dtype":"U8","shape":[300],"data_offsets":[0,300]}}' + b" " * 300
    result = result_of(
        lambda: split_header(file_of(header, bytes(300))),
        f"split_header of a file with a header of {len(header)} bytes",
        hint="the length is little-endian: its first byte is the least significant one",
    )
    expect.equal(len(result), 2, "number of results of split_header")
    expect.equal(
        result[0],
        header,
        "header",
        hint="it begins at byte 8 and has as many bytes as the length says, blanks included",
    )
    expect.equal(
        result[1],
        8 + len(header),
        "data_start",
        hint="count from the start of the file: the length's own 8 bytes come first",
    )


def test_1_1_a_file_that_is_only_a_header():
    from tinyvllm.weights.safetensors import split_header

    what, hint = "split_header of a file without data", "a header may end where the file ends"
    result = result_of(lambda: split_header(file_of(b"{}")), what, hint)
    expect.equal(result, (b"{}", 10), what, hint)


def test_1_1_a_header_as_large_as_allowed():
    from tinyvllm.weights.safetensors import HeaderTruncated, split_header

    expect.raises(
        HeaderTruncated,
        lambda: split_header(file_of(b"{}", size=100_000_000)),
        "a header of exactly 100,000,000 bytes in a file of 10",
        hint="the limit itself is allowed",
    )


@pytest.mark.parametrize("count", [0, 7])
def test_1_1_a_file_without_a_length(count):
    from tinyvllm.weights.safetensors import FileTooShort, split_header

    expect.raises(FileTooShort, lambda: split_header(bytes(count)), f"a file of {count} bytes")


@pytest.mark.parametrize("size", [100_000_001, 2**64 - 1])
def test_1_1_a_header_that_claims_too_much(size):
    from tinyvllm.weights.safetensors import HeaderTooLarge, split_header

    expect.raises(
        HeaderTooLarge,
        lambda: split_header(file_of(b"{}", size=size)),
        f"a header of {size:,} bytes",
        hint="check the limit before you compare with the file's size",
    )


@pytest.mark.parametrize("missing", [1, 9])
def test_1_1_a_header_longer_than_the_file(missing):
    from tinyvllm.weights.safetensors import HeaderTruncated, split_header

    expect.raises(
        HeaderTruncated,
        lambda: split_header(file_of(b'{"a":', size=5 + missing)),
        f"a header that lacks {missing} of its bytes",
        hint="the header ends at byte 8 + its length",
    )


@pytest.mark.parametrize(
    "header",
    [b"", b' {"a": 1}', b"[1]", b"\xef\xbb\xbf{}"],
    ids=["empty", "a blank", "a list", "a byte order mark"],
)
def test_1_1_a_header_that_does_not_begin_with_a_brace(header):
    from tinyvllm.weights.safetensors import HeaderStart, split_header

    expect.raises(
        HeaderStart,
        lambda: split_header(file_of(header)),
        f"the header {header!r}",
        hint="its first byte must be `{`, and a header may be empty",
    )


def test_1_1_a_memory_map(tmp_path):
    import mmap

    from tinyvllm.weights.safetensors import split_header

    (tmp_path / "file").write_bytes(file_of(b"{} ", b"data"))
    with open(tmp_path / "file", "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        expect.equal(split_header(mapped), (b"{} ", 11), "split_header of a memory map")


# --- 1.2 -------------------------------------------------------------------------------------


def test_1_2_different_keys_make_a_dict():
    from tinyvllm.weights.safetensors import reject_duplicates

    pairs = [("b", 1), ("a", {"x": 2}), ("", None)]
    expect.equal(
        reject_duplicates(pairs), {"b": 1, "a": {"x": 2}, "": None}, "the dict of three pairs"
    )
    expect.equal(list(reject_duplicates(pairs)), ["b", "a", ""], "the order of the keys")
    expect.equal(reject_duplicates([]), {}, "the dict of no pairs")


@pytest.mark.parametrize(("first", "second"), [(1, 2), (1, 1), (None, 1), (0, None)])
def test_1_2_a_key_that_stands_twice(first, second):
    from tinyvllm.weights.safetensors import DuplicateKey, reject_duplicates

    expect.raises(
        DuplicateKey,
        lambda: reject_duplicates([("q_proj", first), ("other", 3), ("q_proj", second)]),
        f"the key 'q_proj' twice, with the values {first} and {second}",
        match="q_proj",
        hint="two equal keys are an error, whatever their values; name the key",
    )


def test_1_2_equal_values_under_different_keys_are_fine():
    from tinyvllm.weights.safetensors import reject_duplicates

    pairs = [("a", None), ("b", None), ("c", [0]), ("d", [0])]
    expect.equal(reject_duplicates(pairs), dict(pairs), "equal values under different keys")


# --- 1.3 -------------------------------------------------------------------------------------

# by hand: elements times bits, divided by 8
SIZES = [
    ("I16", (2, 3), 12),
    ("BF16", (49152, 576), 56_623_104),
    ("F64", (5,), 40),
    ("BOOL", (7,), 7),
    ("C64", (3, 1), 24),
    ("F4", (3, 2), 3),
    ("F6_E2M3", (2, 2), 3),
    ("F32", (), 4),
    ("F32", (3, 0, 2), 0),
    ("F6_E3M2", (0,), 0),
    ("U8", (2**61 - 1,), 2**61 - 1),
    ("U8", (0, 2**32, 2**32), 0),
]


@pytest.mark.parametrize(
    ("dtype", "shape", "nbytes"), SIZES, ids=[f"{d} {list(s)}" for d, s, _ in SIZES]
)
def test_1_3_bytes_of_a_tensor(dtype, shape, nbytes):
    from tinyvllm.weights.safetensors import tensor_nbytes

    hint = "elements (the product of the shape) times bits of one, divided by 8"
    if shape == ():
        hint = "the shape [] is a single number: the empty product is 1"
    expect.equal(tensor_nbytes(dtype, shape), nbytes, f"bytes of {dtype} {list(shape)}", hint)


@pytest.mark.parametrize("dtype", ["F31", "bf16", "BF16 ", ""])
def test_1_3_a_dtype_that_does_not_exist(dtype):
    from tinyvllm.weights.safetensors import UnknownDtype, tensor_nbytes

    expect.raises(
        UnknownDtype,
        lambda: tensor_nbytes(dtype, (2,)),
        f"the dtype {dtype!r}",
        hint="only the keys of DTYPES are dtypes, spelled exactly so",
    )


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("F4", (3,)), ("F4", ()), ("F6_E2M3", (3, 1)), ("F6_E3M2", (2,))],
    ids=str,
)
def test_1_3_bits_that_do_not_fill_bytes(dtype, shape):
    from tinyvllm.weights.safetensors import SizeMismatch, tensor_nbytes

    expect.raises(
        SizeMismatch,
        lambda: tensor_nbytes(dtype, shape),
        f"{dtype} {list(shape)}",
        hint="the number of bits must be a multiple of 8",
    )


@pytest.mark.parametrize(
    ("dtype", "shape", "why"),
    [
        ("U8", (2**32, 2**32), "2**64 elements"),
        ("U8", (2**32, 2**32, 0), "2**64 elements before the 0"),
        ("F4", (2**64 - 1, 2), "about 2**65 elements"),
        ("U8", (2**61,), "2**64 bits"),
        ("F64", (2**58,), "2**64 bits"),
        ("F6_E2M3", (2**63,), "6 * 2**63 bits"),
    ],
    ids=str,
)
def test_1_3_more_than_64_bits_can_count(dtype, shape, why):
    from tinyvllm.weights.safetensors import SizeOverflow, tensor_nbytes

    expect.raises(
        SizeOverflow,
        lambda: tensor_nbytes(dtype, shape),
        f"{dtype} {list(shape)}, {why}",
        hint="neither the product so far nor the bits may reach 2**64",
    )


# --- 1.4 -------------------------------------------------------------------------------------


def layout_of(*tensors: tuple[str, int, int]):
    from tinyvllm.weights.safetensors import TensorInfo

    return {name: TensorInfo("U8", (end - start,), start, end) for name, start, end in tensors}


RIGHT = {
    "no tensors and no data": ([], 0),
    "one tensor": ([("alpha", 0, 5)], 5),
    "three tensors": ([("alpha", 0, 4), ("beta", 4, 10), ("gamma", 10, 12)], 12),
    "three tensors, listed from the last to the first": (
        [("gamma", 10, 12), ("beta", 4, 10), ("alpha", 0, 4)],
        12,
    ),
    "only an empty tensor": ([("empty", 0, 0)], 0),
    "empty tensors between, before and after others": (
        [("alpha", 0, 4), ("empty", 4, 4), ("beta", 4, 6), ("empty2", 0, 0), ("empty3", 6, 6)],
        6,
    ),
}


@pytest.mark.parametrize("what", RIGHT)
def test_1_4_a_layout_without_fault(what):
    from tinyvllm.weights.safetensors import check_layout

    tensors, nbytes = RIGHT[what]
    hint = "the header may list tensors in any order"
    if "empty" in what:
        hint = "an empty tensor may begin where a larger one begins: which of them comes first?"
    result = result_of(lambda: check_layout(layout_of(*tensors), nbytes), what, hint)
    expect.equal(result, None, "result of check_layout (it only checks)")


WRONG = {
    "two tensors share two bytes": (
        "OffsetsOverlap",
        [("alpha", 0, 6), ("beta", 4, 10)],
        10,
        "beta",
    ),
    "one tensor inside another": ("OffsetsOverlap", [("alpha", 0, 9), ("beta", 2, 4)], 9, "beta"),
    "the same bytes for two tensors": ("OffsetsOverlap", [("alpha", 0, 4), ("beta", 0, 4)], 4, ""),
    "an empty tensor inside another": (
        "OffsetsOverlap",
        [("alpha", 0, 4), ("empty", 2, 2)],
        4,
        "empty",
    ),
    "two bytes between two tensors": ("OffsetsGap", [("beta", 6, 12), ("alpha", 0, 4)], 12, "beta"),
    "a byte before the first tensor": ("OffsetsGap", [("alpha", 1, 4)], 4, "alpha"),
    "an empty tensor at the end of the file, after a gap": (
        "OffsetsGap",
        [("alpha", 0, 4), ("empty", 6, 6)],
        6,
        "empty",
    ),
    "a tensor that begins after the end": (
        "OffsetsOutOfRange",
        [("alpha", 0, 12), ("beta", 14, 16)],
        12,
        "beta",
    ),
    "a tensor that begins at byte 2**60": (
        "OffsetsOutOfRange",
        [("alpha", 2**60, 2**60)],
        4,
        "alpha",
    ),
    "a tensor that begins in time and ends too late": (
        "DataTruncated",
        [("alpha", 0, 8), ("beta", 8, 15)],
        12,
        "",
    ),
    "a file that lost all its data": ("DataTruncated", [("alpha", 0, 8)], 0, ""),
    "two bytes after the last tensor": ("TrailingData", [("beta", 4, 10), ("alpha", 0, 4)], 12, ""),
    "data and no tensor": ("TrailingData", [], 1, ""),
}
HINTS = {
    "OffsetsOverlap": "a tensor may not begin before the one before it has ended",
    "OffsetsGap": "the first tensor begins at 0, each next one where the one before it ended",
    "OffsetsOutOfRange": "it begins too late, and even after the end of the data",
    "DataTruncated": "where does the last tensor end, and where does the file?",
    "TrailingData": "where does the last tensor end, and where does the file?",
}


@pytest.mark.parametrize("what", WRONG)
def test_1_4_a_layout_with_a_fault(what):
    from tinyvllm.weights import safetensors

    name, tensors, nbytes, culprit = WRONG[what]
    expect.raises(
        getattr(safetensors, name),
        lambda: safetensors.check_layout(layout_of(*tensors), nbytes),
        f"{what}: {tensors}, {nbytes} bytes of data",
        match=culprit,
        hint=HINTS[name],
    )


# --- 1.5 -------------------------------------------------------------------------------------


def address(buffer) -> int:
    return np.frombuffer(buffer, np.uint8).ctypes.data


@pytest.mark.parametrize(
    ("dtype", "shape", "offset"),
    [
        (torch.int16, (2, 3), 8),
        (torch.bfloat16, (4,), 2),
        (torch.float32, (), 4),
        (torch.uint8, (3, 1, 2), 5),
        (torch.float64, (2,), 16),
    ],
    ids=str,
)
def test_1_5_the_tensor_is_a_view_of_the_bytes(dtype, shape, offset):
    from tinyvllm.weights.safetensors import tensor_view

    buffer = bytearray(range(1, 65))
    count = int(np.prod(shape, dtype=int))
    expected = torch.frombuffer(bytearray(buffer[offset:]), dtype=dtype)[:count].reshape(shape)
    what = f"tensor_view of {dtype} {list(shape)} at byte {offset}"
    hint = "`count` of torch.frombuffer counts elements, `offset` bytes; then give it its shape"
    view = result_of(lambda: tensor_view(buffer, dtype, shape, offset), what, hint)
    expect.equal(view, expected, what, hint)
    expect.equal(
        view.data_ptr() - address(buffer),
        offset,
        f"{what}: distance of its first byte from the buffer's",
        hint="an aligned tensor must be a view: slicing a bytearray and .clone() copy",
    )


def test_1_5_a_change_of_the_buffer_is_seen():
    from tinyvllm.weights.safetensors import tensor_view

    buffer = bytearray(16)
    view = tensor_view(buffer, torch.int32, (2,), 8)
    buffer[12] = 5
    expect.equal(
        view, torch.tensor([0, 5], dtype=torch.int32), "the view after a change of the buffer"
    )


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2)], ids=str)
def test_1_5_a_tensor_without_elements(shape):
    from tinyvllm.weights.safetensors import tensor_view

    result = result_of(
        lambda: tensor_view(bytearray(8), torch.float16, shape, 8),
        f"tensor_view with the shape {list(shape)}",
        hint="torch.frombuffer refuses a count of 0; torch.empty makes such a tensor",
    )
    expect.equal(result, torch.empty(shape, dtype=torch.float16), f"the shape {list(shape)}")


class Watched(bytearray):
    """Remembers the longest slice that was copied out of it."""

    longest = 0

    def __getitem__(self, key):
        result = super().__getitem__(key)
        if isinstance(key, slice):
            self.longest = max(self.longest, len(result))
        return result


@pytest.mark.parametrize(
    ("dtype", "shape", "offset"),
    [(torch.int16, (2, 3), 7), (torch.float32, (2,), 10)],
    ids=str,
)
def test_1_5_bytes_that_are_not_aligned_are_copied(dtype, shape, offset):
    from tinyvllm.weights.safetensors import tensor_view

    buffer = Watched(range(1, 65))
    count = int(np.prod(shape))
    raw = bytes(buffer)[offset : offset + count * dtype.itemsize]
    what = f"tensor_view of {dtype} {list(shape)} at byte {offset}, which is not aligned"
    hint = "in a copy of the tensor's bytes, its first byte is at offset 0"
    result = result_of(lambda: tensor_view(buffer, dtype, shape, offset), what, hint)
    expect.equal(result, torch.frombuffer(bytearray(raw), dtype=dtype).reshape(shape), what)
    expect.equal(
        result.data_ptr() % dtype.itemsize,
        0,
        f"{what}: its address modulo the element size",
        hint="if offset is no multiple of dtype.itemsize, take a copy of the bytes",
    )
    expect.equal(
        buffer.longest <= len(raw),
        True,
        f"{what}: only its own {len(raw)} bytes are copied, not {buffer.longest}",
        hint="slice the buffer from offset to the tensor's end",
    )


# --- 1.6 -------------------------------------------------------------------------------------


def experiment(path: Path) -> dict[str, int]:
    """The lines of exercise 1.6, run."""
    from tinyvllm.weights.safetensors import SafetensorsFile

    values = {"a": torch.tensor([1, 2, 3, 4]).short(), "b": torch.tensor([5, 6, 7, 8]).short()}
    path.write_bytes(save(values))
    first, second = SafetensorsFile(path), SafetensorsFile(path)
    x, y, z = first.get_tensor("a"), first.get_tensor("a"), second.get_tensor("a")
    b = first.get_tensor("b")
    x[0] = 99
    first.close()
    return {
        "y[0]": y[0].item(),
        "z[0]": z[0].item(),
        "the file's first element": load(path.read_bytes())["a"][0].item(),
        "b.data_ptr() - x.data_ptr()": b.data_ptr() - x.data_ptr(),
        "x[1] after close()": x[1].item(),
    }


WHY = {
    "y[0]": "x and y are views of the same map, so of the same byte",
    "z[0]": "a write makes a private copy of the page for this map; `second` has a map of its own",
    "the file's first element": "copy-on-write: what you write goes to a copy, never to the file",
    "b.data_ptr() - x.data_ptr()": "addresses count bytes; how many has a tensor of four I16?",
    "x[1] after close()": "only x[0] was written, and a tensor keeps the map alive",
}


def test_1_6_the_prediction_comes_true(exercises, tmp_path):
    outcome = experiment(tmp_path / "pair.safetensors")
    predicted = exercises.predict()
    expect.equal(
        sorted(predicted) if isinstance(predicted, dict) else predicted,
        sorted(outcome),
        "keys of the prediction",
        hint="return a dict with the five keys of the exercise",
    )
    for key, value in outcome.items():
        expect.equal(predicted[key], value, f"prediction for {key}", hint=WHY[key])


# --- 1.7 -------------------------------------------------------------------------------------


def test_1_7_the_data_begins_at_a_multiple_of_8(exercises):
    for length in range(1, 17):
        file = exercises.to_bytes({"w" * length: torch.zeros(3)})
        size = int.from_bytes(file[:8], "little")
        expect.equal(
            size % 8,
            0,
            f"name of {length} letters: length of the header ({size}) modulo 8",
            hint="how far is it to the *next* multiple of 8? The blanks count as header",
        )


def test_1_7_the_padding_is_blanks_and_no_more_than_needed(exercises):
    for length in range(1, 17):
        file = exercises.to_bytes({"w" * length: torch.zeros(3)})
        header = file[8 : 8 + int.from_bytes(file[:8], "little")]
        expect.equal(header[:1], b"{", "first byte of the header", hint="the blanks go to its end")
        text = header[: header.rindex(b"}") + 1]
        expect.equal(
            header[len(text) :],
            b" " * (-len(text) % 8),
            f"padding of a header of {len(text)} bytes",
            hint="blanks after the JSON, from 0 to 7 of them",
        )
        expect.equal(list(json.loads(text)), ["w" * length], "names in the header")


def test_1_7_what_is_written_can_be_read(exercises):
    generator = torch.Generator().manual_seed(1)
    tensors = {
        "matrix": torch.randn(3, 5, generator=generator),
        "transposed": torch.randn(4, 2, generator=generator).T,
        "weights": torch.randn(7, generator=generator).bfloat16(),
        "one number": torch.tensor(3, dtype=torch.int64),
        "nothing": torch.empty(0, 3),
        "flags": torch.tensor([True, False, True]),
    }
    back = result_of(
        lambda: load(exercises.to_bytes(tensors)),
        "reading the file with the safetensors package",
        hint="change the padding, and keep the rest of the function as it was shipped",
    )
    expect.equal(back, tensors, "tensors read back by the safetensors package")
