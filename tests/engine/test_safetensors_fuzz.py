"""Our reader against the `safetensors` package on files that nobody would write by hand.

Both ways: what the package writes, we read bit for bit; what the package rejects, we reject, and
what it accepts, we accept. We are stricter in three places on purpose, where the format's text is
stricter than the package (0.8): see DELIBERATE. TINYVLLM_FUZZ_CASES sets the number of cases
of each test.
"""

import json
import os
import random
import struct

import pytest
import torch
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, deserialize
from safetensors.torch import save

from tinyvllm.weights.safetensors import (
    DTYPES,
    DuplicateKey,
    HeaderStart,
    InvalidEntry,
    SafetensorsError,
    SafetensorsFile,
)

CASES = int(os.environ.get("TINYVLLM_FUZZ_CASES", "0"))
FUZZ = settings(
    max_examples=CASES or 150,
    derandomize=not CASES,  # in CI the same cases each time; a long run draws new ones
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

# Files that the package accepts and we reject, by the error that we raise, and why:
DELIBERATE = {
    HeaderStart,  # the format: the header must begin with "{"; the package skips blanks before it
    DuplicateKey,  # the format: no duplicate keys; the package keeps the last of them
    InvalidEntry,  # ["U8", [2], [0, 2]] for an entry, {"U8": null} for a dtype: accidents of serde
}

NAMES = st.sampled_from(["a", "b", "model.norm.weight", "", "é", "😀", "a\x00", '"\\', "dtype"])
SIZES = st.sampled_from([0, 1, 2, 3, 4, 8])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "model.safetensors"


def ours(path, data: bytes):
    """{name: (dtype, shape, bytes)} as our reader sees the file, or the error that it raised."""
    path.write_bytes(data)
    try:
        with SafetensorsFile(path) as file:
            begin = file.data_start
            return {
                name: (info.dtype, list(info.shape), data[begin + info.start : begin + info.end])
                for name, info in file.tensors.items()
            }
    except SafetensorsError as error:
        return error


def theirs(data: bytes):
    """The same as the package sees it, or its error."""
    try:
        return {k: (v["dtype"], v["shape"], bytes(v["data"])) for k, v in deserialize(data)}
    except SafetensorError as error:
        return error


def is_deliberate(data: bytes, error: SafetensorsError) -> bool:
    """Is the file really what `error` says of it? Found out without our reader."""
    (size,) = struct.unpack("<Q", data[:8])
    if isinstance(error, HeaderStart):
        return data[8:9] != b"{"
    if isinstance(error, DuplicateKey):
        repeated = []
        json.loads(
            data[8 : 8 + size],
            object_pairs_hook=lambda pairs: repeated.append(len(dict(pairs)) < len(pairs)),
        )
        return any(repeated)
    entries = json.loads(data[8 : 8 + size]).values()
    return isinstance(error, InvalidEntry) and any(
        isinstance(entry, list)
        or (isinstance(entry, dict) and isinstance(entry.get("dtype"), dict))
        for entry in entries
    )


def check_same_verdict(path, data: bytes) -> None:
    mine, reference = ours(path, data), theirs(data)
    event("we reject it" if isinstance(mine, SafetensorsError) else "we accept it")
    event(f"we say {type(mine).__name__}, the package says {type(reference).__name__}")
    if isinstance(reference, SafetensorError):
        assert isinstance(mine, SafetensorsError), f"the package rejects it: {reference}"
    elif isinstance(mine, SafetensorsError):
        assert type(mine) in DELIBERATE, f"the package accepts it, we say {mine}"
        assert is_deliberate(data, mine), f"this is not what is wrong with it: {mine}"
    else:
        assert mine == reference


# --- what the package writes -----------------------------------------------------------------

TORCH_DTYPES = sorted({torch_dtype for _, torch_dtype in DTYPES.values() if torch_dtype}, key=str)


@st.composite
def tensors(draw):
    result = {}
    for name in draw(st.lists(NAMES | st.text(max_size=8), unique=True, max_size=5)):
        dtype = draw(st.sampled_from(TORCH_DTYPES))
        shape = draw(st.lists(SIZES, max_size=3))
        count = torch.Size(shape).numel()
        bits = draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize))
        if dtype == torch.bool:
            bits = bytes(bit & 1 for bit in bits)
        result[name] = torch.empty(shape, dtype=dtype)
        if count:
            result[name] = torch.frombuffer(bytearray(bits), dtype=dtype).reshape(shape)
    return result


@FUZZ
@given(written=tensors(), metadata=st.none() | st.dictionaries(st.text(max_size=5), st.text()))
def test_a_file_written_by_the_package_is_read_bit_for_bit(path, written, metadata):
    if not written and metadata == {}:
        metadata = None  # here the package (0.8) writes a header that it cannot read itself
    path.write_bytes(save(written, metadata))
    with SafetensorsFile(path) as file:
        assert file.tensors.keys() == written.keys()
        assert file.metadata == (metadata or {})
        for name in file.tensors:
            tensor, expected = file.get_tensor(name), written[name]
            assert (tensor.dtype, tensor.shape) == (expected.dtype, expected.shape)
            assert raw(tensor) == raw(expected)


def raw(tensor: torch.Tensor) -> bytes:
    return tensor.flatten().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


# --- what nobody should write ----------------------------------------------------------------

NUMBERS = st.sampled_from(
    [*"0123478", "16", "-1", "-0", "2.0", "1e0", "1e999", "02", "+1", "true", "null", '"2"', "[2]"]
    + ["NaN", "-Infinity", "1_0", "0x1", ".5", "1.", "9" * 400, "0." + "1" * 400]
    + [str(2**bits) for bits in (32, 61, 63, 64)]
    + [str(2**64 - 1)]
)
NESTED = st.sampled_from(
    ["[" * n + "]" * n for n in (125, 126, 2000)]
    + ['{"a":' * n + "1" + "}" * n for n in (125, 126)]
)
VALUES = (
    NUMBERS
    | NESTED
    | st.sampled_from(
        ["{}", "[]", '"x"', '{"x":1,"x":2}', '"\\ud800"', '"\\ud83d\\ude00"', '"\\u12G4"', '"\\x"']
    )
)
DTYPE_TEXTS = st.sampled_from(
    [json.dumps(name) for name in DTYPES] + ['"u8"', '"F128"', "8", "null", '{"U8": null}', '"U8 "']
)
METADATA = st.sampled_from(
    ["{}", '{"a": "b"}', '{"a": "1", "a": "2"}', '{"a": 1}', "null", "[]", '"x"', '{"a": null}']
)
BLANKS = st.sampled_from(["", "", " ", "\n", "\t\r ", "\0", "\ufeff", "\x0b", ","])


def rarely(draw, strategy, otherwise, one_in=40):
    """`otherwise`, and once in a while something from `strategy`."""
    # Hypothesis likes the ends of a range, so the rare case is a number in the middle of it.
    return draw(strategy) if draw(st.integers(0, one_in)) == one_in // 2 else otherwise


def number(draw, value):
    """`value`, once in a while spelled in another way, or another number."""
    spellings = [f"{value}.0", f"{value}e0", f"+{value}", f"0{value}", f"-{value}", f'"{value}"']
    spellings += ["true"] if value == 1 else []
    return rarely(draw, st.sampled_from(spellings) | NUMBERS, str(value))


@st.composite
def headers(draw):
    """A header's text and the length of its data: legal, but for a few places."""
    position, members = 0, []
    for name in draw(st.lists(NAMES, unique=True, max_size=4)):
        dtype = draw(st.sampled_from(list(DTYPES)))
        shape = draw(st.lists(SIZES, max_size=3))
        nbytes = torch.Size(shape).numel() * DTYPES[dtype][0] // 8
        start = max(0, position + rarely(draw, st.integers(-3, 9), 0, 12))
        position = end = max(0, start + nbytes + rarely(draw, st.integers(-9, 9), 0, 20))
        numbers = [number(draw, size) for size in shape]
        fields = [
            f'"dtype":{rarely(draw, DTYPE_TEXTS, json.dumps(dtype))}',
            f'"shape":[{",".join(numbers)}]',
            f'"data_offsets":[{number(draw, start)},{number(draw, end)}]',
        ]
        if rarely(draw, st.just(True), False, 12):
            fields.append(
                draw(st.sampled_from(['"x":', '"y":', '"dtype":', '"\\ud800":'])) + draw(VALUES)
            )
        if rarely(draw, st.just(True), False):
            fields.pop(draw(st.integers(0, len(fields) - 1)))
        entry = "{" + ",".join(draw(st.permutations(fields))) + "}"
        if rarely(draw, st.just(True), False):
            entry = f'["{dtype}",{json.dumps(shape)},[{start},{end}]]'
        key = json.dumps(name, ensure_ascii=draw(st.booleans()))
        members.append(f"{key}:{rarely(draw, VALUES, entry)}")
    if draw(st.booleans()):
        metadata = rarely(draw, METADATA, '{"format": "pt"}', 12)
        members.append(f'"__metadata__":{metadata}')
    if members and rarely(draw, st.just(True), False):
        members.append(draw(st.sampled_from(members)))
    body = ",".join(draw(st.permutations(members)))
    around = [rarely(draw, BLANKS, "") for _ in range(4)]
    text = around[0] + "{" + around[1] + body + around[2] + "}" + around[3]
    return text, position


@st.composite
def files(draw):
    """A whole file: header, length and data, each wrong now and then, then bytes changed."""
    text, nbytes = draw(headers())
    header = text.encode()
    size = max(0, len(header) + rarely(draw, st.integers(-9, 9), 0))
    size = rarely(draw, st.sampled_from([0, 2, 100_000_000, 100_000_001, 2**63, 2**64 - 1]), size)
    nbytes = max(0, nbytes + rarely(draw, st.integers(-9, 9), 0, 15))
    file = bytearray(struct.pack("<Q", size) + header + bytes(i % 251 for i in range(nbytes)))
    for _ in range(rarely(draw, st.integers(1, 3), 0)):
        file[draw(st.integers(0, len(file) - 1))] = draw(st.integers(0, 255))
    if rarely(draw, st.just(True), False):
        del file[draw(st.integers(0, len(file))) :]
    return bytes(file)


COPIES = 9  # of each file, with a few bytes changed


def with_changed_bytes(file: bytes, seed: int) -> bytes:
    """`file` with one to three bytes of its header replaced, inserted, doubled or deleted."""
    rng = random.Random(seed)
    (size,) = struct.unpack("<Q", file[:8]) if len(file) >= 8 else (0,)
    end = min(8 + size, len(file))
    header, data = bytearray(file[8:end]), file[end:]
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(header))
        new = (
            rng.choice(b'{}[]":,0123456789-eE.+\\u tn_AFU')
            if rng.random() < 0.9
            else rng.randrange(256)
        )
        match rng.randrange(5):
            case 0:
                header[at:at] = bytes([new])
            case 1:
                header[at : at + rng.randint(1, 20)] = b""
            case 2:
                header[at:at] = header[at : at + rng.randint(1, 60)]
            case _:
                header[at : at + 1] = bytes([new])
    if rng.random() < 0.8:  # else the length is wrong, too
        size = len(header)
    return struct.pack("<Q", size) + bytes(header) + data


@settings(FUZZ, max_examples=(CASES or 700) // (1 + COPIES))
@given(data=files(), seed=st.integers(0, 2**32))
def test_a_wrong_file_gets_the_verdict_of_the_package(path, data, seed):
    check_same_verdict(path, data)
    for i in range(COPIES):
        check_same_verdict(path, with_changed_bytes(data, seed + i))


@FUZZ
@given(
    data=st.binary(max_size=64)
    | st.text(max_size=64).map(lambda text: struct.pack("<Q", len(text.encode())) + text.encode())
)
def test_random_bytes_get_the_verdict_of_the_package(path, data):
    check_same_verdict(path, data)
