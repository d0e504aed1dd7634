"""Arguments in memory as the driver takes them: NumPy's bytes, eight bytes apart."""

import numpy as np
import pytest

from tinyvllm.cuda.driver import PackedLaunch

KINDS = ("pointer", "int32", "float32", "int64")


def slots(launch: PackedLaunch) -> list[bytes]:
    values = launch.values()
    return [values[i : i + 8] for i in range(0, len(values), 8)]


def test_each_argument_lies_where_its_eight_bytes_begin():
    launch = PackedLaunch(KINDS)
    assert launch.pack((0xFFFF_FFFF_FFFF_FFF0, -7, 0.1, -(2**63)))
    pointer, int32, float32, int64 = slots(launch)
    assert pointer == np.uint64(0xFFFF_FFFF_FFFF_FFF0).tobytes()
    assert int32[:4] == np.int32(-7).tobytes()
    assert float32[:4] == np.float32(0.1).tobytes()
    assert int64 == np.int64(-(2**63)).tobytes()
    assert launch.pack((1, 2, 3.0, 4))
    assert slots(launch)[1][:4] == np.int32(2).tobytes()


@pytest.mark.parametrize("value", [0.1, -0.0, 1e-45, 3.4e38, float("inf"), float("nan")])
def test_a_float_is_rounded_as_numpy_rounds_it(value):
    launch = PackedLaunch(("float32",))
    assert launch.pack((value,))
    assert launch.values()[:4] == np.float32(value).tobytes()


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int32", 2**31), ("int32", -(2**31) - 1), ("int64", 2**63), ("float32", 1e39)],
)
def test_a_number_out_of_range_is_not_packed(kind, value):
    assert not PackedLaunch((kind,)).pack((value,))


def test_a_kernel_without_parameters_has_nothing_to_pack():
    launch = PackedLaunch(())
    assert launch.pack(()) and launch.values() == b""
