"""The checks of chapter 05, RoPE: position as rotation.

The oracle is a turn written with complex numbers in float64: a pair (a, b) is a + ib, and turning
it is one multiplication. The package is imported inside the checks: there it is the student's code.
"""

import math

import numpy as np
import torch

from tinyvllm.course import expect

# -- helpers -------------------------------------------------------------------------------------


def table_of(length: int, head_dim: int, theta: float = 10_000.0) -> torch.Tensor:
    """cos and sin of every position, by float64: [length, head_dim] float32."""
    frequencies = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angles = torch.outer(torch.arange(length, dtype=torch.float64), frequencies)
    return torch.cat((angles.cos(), angles.sin()), dim=-1).float()


def turn(x: torch.Tensor, angles: torch.Tensor, adjacent: bool = False) -> torch.Tensor:
    """Heads x [T, heads, head_dim] turned by angles [T, head_dim / 2], float64."""
    x, unit = x.double(), torch.polar(torch.ones_like(angles), angles).unsqueeze(1)
    if adjacent:
        turned = torch.complex(x[..., 0::2], x[..., 1::2]) * unit
        return torch.stack((turned.real, turned.imag), dim=-1).flatten(-2)
    half = x.shape[-1] // 2
    turned = torch.complex(x[..., :half], x[..., half:]) * unit
    return torch.cat((turned.real, turned.imag), dim=-1)


def angles_of(positions: torch.Tensor, cos_sin: torch.Tensor) -> torch.Tensor:
    """The angles behind rows of a table: [T, head_dim / 2] float64."""
    cosines, sines = cos_sin[positions].double().chunk(2, dim=-1)
    return torch.atan2(sines, cosines)


def random_step(T: int, num_heads: int, num_kv_heads: int, head_dim: int, dtype=torch.float32):
    """positions (in no order), q, k and a table of 64 positions."""
    generator = torch.Generator().manual_seed(T + head_dim)
    positions = torch.randint(1, 64, (T,), generator=generator)
    q = torch.randn(T, num_heads, head_dim, generator=generator).to(dtype)
    k = torch.randn(T, num_kv_heads, head_dim, generator=generator).to(dtype)
    return positions, q, k, table_of(64, head_dim)


TOLERANCE = {torch.float32: 2e-6, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}

ADJACENT = (
    "this is the answer of adjacent pairs (2i, 2i + 1); half-split pairs are (i, i + head_dim/2)"
)
CLOCKWISE = "this is a turn with the clock: x1 * cos - x2 * sin, and x2 * cos + x1 * sin"


def cause_of(actual: torch.Tensor, x: torch.Tensor, angles: torch.Tensor, hint: str) -> str:
    """The hint for a wrong turn of x: a known mistake, if it is one."""
    if actual.shape != x.shape or not actual.is_floating_point():
        return hint
    known = (
        (turn(x, angles, adjacent=True), ADJACENT),
        (turn(x, -angles), CLOCKWISE),
        (x.double(), "nothing was turned"),
    )
    for wrong, words in known:
        if torch.allclose(actual.double(), wrong, atol=0.05, rtol=0.02):
            return words
    return hint


def expect_turned(actual, positions, x, cos_sin, what: str, hint: str) -> None:
    """Demand heads `x` turned, in x's dtype, up to one rounding of it."""
    angles = angles_of(positions, cos_sin)
    if isinstance(actual, torch.Tensor):
        hint = cause_of(actual, x, angles, hint)
    tolerance = TOLERANCE[x.dtype]
    expected = turn(x, angles)
    expect.close(actual, expected, what, rtol=tolerance, atol=tolerance, dtype=x.dtype, hint=hint)


# -- 5.1 turn ------------------------------------------------------------------------------------


def test_5_1_the_examples_of_section_2(exercises):
    for x, degrees, expected in (
        ((2.0, 0.0), 90, (0.0, 2.0)),
        ((1.0, 1.0), 30, (0.36602540, 1.36602540)),
        ((2.0, 0.0), 210, (-1.73205081, -1.0)),
    ):
        expect.close(
            exercises.rotate(np.array(x), np.array(math.radians(degrees))),
            np.array(expected),
            f"rotate({x}) by {degrees} degrees",
            rtol=1e-6,
            atol=1e-6,
            hint="x' = x cos a - y sin a and y' = x sin a + y cos a, a in radians; both use the x"
            " and y from before",
        )


def test_5_1_many_arrows_each_by_its_angle(exercises):
    rng = np.random.default_rng(0)
    for shape in ((7, 2), (2, 2), (3, 5, 2), (0, 2)):
        x, angle = rng.standard_normal(shape), rng.uniform(-9, 9, shape[:-1])
        turned = (x[..., 0] + 1j * x[..., 1]) * np.exp(1j * angle)
        expect.close(
            exercises.rotate(x, angle),
            np.stack((turned.real, turned.imag), axis=-1),
            f"rotate of arrows {list(shape)} by angles {list(shape[:-1])}",
            rtol=1e-9,
            atol=1e-9,
            hint="an arrow lies along the last dimension: x[..., 0] and x[..., 1]",
        )


def test_5_1_one_angle_for_all(exercises):
    x = np.random.default_rng(1).standard_normal((4, 3, 2))
    turned = (x[..., 0] + 1j * x[..., 1]) * np.exp(0.5j)
    expect.close(
        exercises.rotate(x, np.array(0.5)),
        np.stack((turned.real, turned.imag), axis=-1),
        "rotate of arrows [4, 3, 2] by a single angle",
        rtol=1e-9,
        atol=1e-9,
        hint="let NumPy spread the angle over the arrows",
    )


def test_5_1_the_input_stays(exercises):
    x = np.array([[2.0, 0.0], [1.0, 1.0]])
    exercises.rotate(x, np.array([1.0, 2.0]))
    expect.equal(
        x,
        np.array([[2.0, 0.0], [1.0, 1.0]]),
        "the arrows that were given to rotate",
        "they belong to the caller: make a new array",
    )


# -- 5.2 predict ---------------------------------------------------------------------------------


def run_experiments() -> dict[str, float]:
    """What comes out of exercise 5.2, by doing it."""
    from tinyvllm.ops.rope import base_frequencies, cos_sin_table

    frequencies = base_frequencies(64, 100_000.0)
    table = cos_sin_table(frequencies, 1200)
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 64, generator=generator).double()

    def score(m: int, n: int) -> float:
        turned_q, turned_k = (
            turn(x.view(1, 1, 64), angles_of(torch.tensor([at]), table))
            for x, at in ((q, m), (k, n))
        )
        return float((turned_q * turned_k).sum())

    q *= 1.5 / score(9, 4)
    angle = math.radians(30)
    first, second = 2 * np.exp(1j * angle), (1 + 1j) * np.exp(3j * angle)
    unit = torch.randn(1, 1, 64, generator=generator)
    long = turn(3 * unit / unit.norm(), angles_of(torch.tensor([123]), table))
    at_zero = turn(torch.full((1, 1, 64), 0.25), angles_of(torch.tensor([0]), table))
    return {
        "shifted": score(1009, 1004),
        "at_zero": float(at_zero[0, 0, 0]),
        "length": float(long.norm()),
        "swapped": float((first * second.conjugate()).real),
        "slow": float((2 * math.pi / frequencies > 8192).sum()),
        "bf16": float(torch.tensor(257).to(torch.bfloat16)),
    }


WHY = {
    "shifted": "both tokens moved by 1000, so the distance is still 5",
    "at_zero": "at position 0 the angle is 0",
    "length": "a turn changes no length, and each pair is only turned",
    "swapped": "the angle from k to q was -45 degrees; now q is turned by 30 and k by 90 degrees:"
    " take the cosine of -105 degrees",
    "slow": "2π · 100000^(i/32) > 8192: solve for i, then count the pairs up to 31",
    "bf16": "between 256 and 512 bfloat16 takes steps of 2, and a tie goes to the even neighbour",
}


def test_5_2_each_experiment(exercises):
    predicted = exercises.predict()
    expect.equal(set(predicted), set(WHY), "the names in predict()", "keep the six names")
    for name, result in run_experiments().items():
        expect.close(
            float(predicted[name]),
            result,
            f"your prediction for {name!r}, against the experiment",
            rtol=0,
            atol=0.006,
            hint=WHY[name],
        )


# -- 5.3 rope_reference --------------------------------------------------------------------------


def test_5_3_one_head_of_four_numbers():
    from tinyvllm.ops.rope import rope_reference

    quarter = torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]])  # pair 0 by 90 degrees
    x = torch.tensor([[[1.0, 2.0, 3.0, 4.0]]])
    q, _ = rope_reference(torch.tensor([1]), x.clone(), x.clone(), quarter)
    expect_turned(
        q,
        torch.tensor([1]),
        x,
        quarter,
        "q = (1, 2, 3, 4), its pair 0 turned by 90 degrees",
        "pair 0 is (1, 3) and becomes (-3, 1); pair 1 stays",
    )


def test_5_3_q_and_k_by_their_positions():
    from tinyvllm.ops.rope import rope_reference

    for T, num_heads, num_kv_heads, head_dim in ((5, 4, 2, 8), (3, 3, 3, 64), (4, 8, 1, 2)):
        positions, q, k, table = random_step(T, num_heads, num_kv_heads, head_dim)
        turned = rope_reference(positions, q.clone(), k.clone(), table)
        for name, actual, x in zip("qk", turned, (q, k)):
            expect_turned(
                actual,
                positions,
                x,
                table,
                f"{name} {list(x.shape)} at positions {positions.tolist()}",
                "each token takes the row of the table at its own position, for all its heads;"
                " cosines are the first half of the row, sines the second",
            )


def test_5_3_computes_in_float32_and_rounds_once():
    from tinyvllm.ops.rope import rope_reference

    for dtype in (torch.bfloat16, torch.float16):
        positions, q, k, table = random_step(64, 4, 2, 64, dtype)
        turned = rope_reference(positions, q.clone(), k.clone(), table)
        for name, actual, x in zip("qk", turned, (q, k)):
            what = f"{name} in {str(dtype).removeprefix('torch.')}"
            hint = (
                "widen x with .float(), keep cosines and sines in float32, round the result with"
                " .to(x.dtype)"
            )
            expect_turned(actual, positions, x, table, what, hint)
            nearest = turn(x, angles_of(positions, table)).to(dtype)
            wrong = (actual != nearest).float().mean().item()
            if wrong > 0.01:  # a few lie so near a tie that float32 decides otherwise
                raise AssertionError(
                    f"{what}: {wrong:.0%} of the numbers aren't the nearest ones\n"
                    "  hint: more than one rounding: widen x, keep cosines and sines in float32"
                )


def test_5_3_the_inputs_stay_and_nothing_is_a_step():
    from tinyvllm.ops.rope import rope_reference

    positions, q, k, table = random_step(3, 2, 1, 8)
    before = q.clone()
    rope_reference(positions, q, k, table)
    expect.equal(q, before, "the q that was given", "it belongs to the caller: make a new tensor")
    empty_q, empty_k = rope_reference(positions[:0], q[:0], k[:0], table)
    shapes = (list(empty_q.shape), list(empty_k.shape))
    expect.equal(shapes, ([0, 2, 8], [0, 1, 8]), "the shapes for no tokens at all")


# -- 5.4 to_half_split ---------------------------------------------------------------------------


def reordered(exercises, weight: torch.Tensor, num_heads: int) -> torch.Tensor:
    """What the student makes of a copy of `weight`; its shape and dtype must be right."""
    result = exercises.to_half_split(weight.clone(), num_heads)
    form, expected = (list(result.shape), result.dtype), (list(weight.shape), weight.dtype)
    what = f"shape and dtype of to_half_split of {list(weight.shape)} with {num_heads} heads"
    expect.equal(form, expected, what, "both are those of the matrix that was given")
    return result


def test_5_4_rows_of_one_head(exercises):
    weight = torch.arange(8.0).view(8, 1)
    expect.equal(
        reordered(exercises, weight, 1).flatten().tolist(),
        [0.0, 2.0, 4.0, 6.0, 1.0, 3.0, 5.0, 7.0],
        "the new order of the rows 0 to 7 of one head",
        "row 2i goes to place i, row 2i + 1 to place i + 4: first the even rows, then the odd ones",
    )


def test_5_4_heads_stay_where_they_are(exercises):
    weight = torch.arange(12.0).view(12, 1).repeat(1, 4)
    expect.equal(
        reordered(exercises, weight, 3)[:, 0].tolist(),
        [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0, 8.0, 10.0, 9.0, 11.0],
        "the new order of 12 rows in 3 heads",
        "reorder within each head: its rows are head_dim = 4 neighbours",
    )


def test_5_4_scores_are_those_of_adjacent_pairs(exercises):
    generator = torch.Generator().manual_seed(3)
    heads, head_dim, hidden_size, T = 3, 16, 10, 6
    x = torch.randn(T, hidden_size, generator=generator)
    w_q, w_k = torch.randn(2, heads * head_dim, hidden_size, generator=generator)
    positions = torch.tensor([0, 5, 9, 33, 60, 61])
    angles = angles_of(positions, table_of(64, head_dim))

    def scores(w_q, w_k, adjacent):
        q, k = ((x @ w.T).view(T, heads, head_dim) for w in (w_q, w_k))
        q, k = turn(q, angles, adjacent), turn(k, angles, adjacent)
        return torch.einsum("thd,shd->hts", q, k).float()

    expect.close(
        scores(
            reordered(exercises, w_q, heads),
            reordered(exercises, w_k, heads),
            False,
        ),
        scores(w_q, w_k, True),
        "scores with half-split pairs on reordered rows",
        rtol=1e-3,
        atol=1e-3,
        hint="they must be those of adjacent pairs on the rows as they came",
    )


def test_5_4_the_given_matrix_stays(exercises):
    weight = torch.randn(8, 5, generator=torch.Generator().manual_seed(4)).to(torch.bfloat16)
    before = weight.clone()
    reordered(exercises, weight, 2)
    exercises.to_half_split(weight, 2)
    expect.equal(weight, before, "the matrix that was given", "make a new tensor")


# -- 5.5 inverse_frequencies ---------------------------------------------------------------------


def scaled_by_cases(head_dim: int, theta: float, s) -> np.ndarray:
    """Llama 3's three cases, one pair at a time, in float64."""
    result = []
    for i in range(head_dim // 2):
        frequency = theta ** (-2 * i / head_dim)
        turns = s.original_max_position_embeddings * frequency / (2 * math.pi)
        if turns < s.low_freq_factor:
            frequency /= s.factor
        elif turns <= s.high_freq_factor:
            keep = (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor)
            frequency *= keep + (1 - keep) / s.factor
        result.append(frequency)
    return np.array(result)


def test_5_5_plain_without_scaling():
    from tinyvllm.ops.rope import inverse_frequencies

    for head_dim, theta in ((64, 100_000.0), (2, 10_000.0), (128, 500_000.0)):
        expected = theta ** (-np.arange(0, head_dim, 2) / head_dim)
        expect.close(
            inverse_frequencies(head_dim, theta),
            torch.from_numpy(expected),
            f"frequencies for head_dim {head_dim}, theta {theta:,.0f}, no scaling",
            rtol=1e-5,
            atol=0,
            dtype=torch.float32,
            hint="without scaling they are base_frequencies",
        )


def test_5_5_the_three_zones():
    from tinyvllm.config import RopeScaling
    from tinyvllm.ops.rope import inverse_frequencies

    hints = {
        "kept": "pairs that make more than high_freq_factor turns in the old length stay",
        "stretched": "pairs that make less than low_freq_factor turns are divided by the factor",
        "blended": "keep * ω + (1 - keep) * ω / factor, keep = (turns - low) / (high - low): blend"
        " the frequencies, not the wavelengths",
    }
    for name, head_dim, theta, scaling in (
        ("Llama-3.2-1B", 64, 500_000.0, RopeScaling(32.0, 1.0, 4.0, 8192)),
        ("Llama-3.1-8B", 128, 500_000.0, RopeScaling(8.0, 1.0, 4.0, 8192)),
        ("a made-up model", 32, 1000.0, RopeScaling(5.0, 2.0, 6.0, 100)),
    ):
        actual = inverse_frequencies(head_dim, theta, scaling)
        expected = scaled_by_cases(head_dim, theta, scaling)
        expect.equal(list(actual.shape), [head_dim // 2], f"shape of the frequencies of {name}")
        plain = theta ** (-np.arange(0, head_dim, 2) / head_dim)
        turns = scaling.original_max_position_embeddings * plain / (2 * math.pi)
        zones = {
            "kept": turns > scaling.high_freq_factor,
            "stretched": turns < scaling.low_freq_factor,
        }
        zones["blended"] = ~(zones["kept"] | zones["stretched"])
        for zone, mask in zones.items():
            expect.close(
                actual[torch.from_numpy(mask)],
                torch.from_numpy(expected[mask]),
                f"{name}: frequencies of the pairs that are {zone}",
                rtol=1e-4,
                atol=0,
                dtype=torch.float32,
                hint=hints[zone],
            )


# -- 5.6 the kernel ------------------------------------------------------------------------------


def check_rope(T, num_heads, num_kv_heads, head_dim, block, dtype, what: str, hint: str) -> tuple:
    """Runs the student's kernel in check mode and compares q and k with the oracle.

    Returns (positions, q, table, what the kernel made of q).
    """
    from tinyvllm.cuda import load

    positions, q, k, table = random_step(T, num_heads, num_kv_heads, head_dim, dtype)
    q_out, k_out = torch.full_like(q, torch.nan), torch.full_like(k, torch.nan)
    args = (q_out, k_out, q, k, positions, table, num_heads, num_kv_heads, head_dim)
    load("rope.cu", "rope", scalar_t=dtype).check((T,), (block,), args)
    for name, actual, x in zip("qk", (q_out, k_out), (q, k)):
        unwritten = "some numbers were never written (they still hold the NaN from before)"
        expect_turned(
            actual,
            positions,
            x,
            table,
            f"{name} {list(x.shape)} {what}",
            unwritten if actual.isnan().any() else hint,
        )
    return positions, q, table, q_out


def test_5_6_one_token():
    check_rope(
        *(1, 1, 1, 8, 8, torch.float32),
        "of one token, 8 threads",
        "thread i has pair i of q for i < 4, and pair i - 4 of k from there on; cosines are the"
        " first half of the table's row, sines the second; the row is that of positions[token]",
    )


def test_5_6_several_heads_and_tokens():
    check_rope(
        *(5, 4, 2, 16, 64, torch.float32),
        "of 5 tokens, 64 threads",
        "a token of q begins at token * num_heads * head_dim, one of k at token * num_kv_heads *"
        " head_dim; its position is positions[token]",
    )


def test_5_6_more_pairs_than_threads():
    for block in (32, 1):
        check_rope(
            *(2, 9, 3, 10, block, torch.float32),
            f"of 60 pairs a token, {block} threads",
            "a thread goes on with the pair that lies blockDim.x further",
        )


def test_5_6_more_threads_than_pairs():
    check_rope(
        *(3, 2, 1, 6, 128, torch.float32),
        "of 9 pairs a token, 128 threads",
        "threads without a pair do nothing",
    )


def test_5_6_bfloat16_and_half_rounded_once():
    for dtype in (torch.bfloat16, torch.float16):
        positions, q, table, q_out = check_rope(
            *(4, 3, 1, 64, 96, dtype),
            f"in {str(dtype).removeprefix('torch.')}",
            "compute in float, and convert with scalar_t(...) once, when you write",
        )
        wrong = (q_out != turn(q, angles_of(positions, table)).to(dtype)).float().mean().item()
        if wrong > 0.01:
            raise AssertionError(
                f"q in {str(dtype).removeprefix('torch.')}: {wrong:.0%} of the numbers aren't the"
                " nearest ones\n  hint: more than one rounding: keep x1, x2, cosine and sine in"
                " float until you write"
            )


# -- 5.7 find the fault --------------------------------------------------------------------------


def rules() -> dict:
    """Ways to turn q and k: (positions, q, k) -> (q, k), by name. head_dim is 16."""
    plain, slow = table_of(512, 16, 500.0), table_of(512, 16, 5000.0)

    def by(table, adjacent=False, position=lambda p: p):
        def rule(positions, q, k):
            angles = angles_of(position(positions), table)
            return tuple(turn(x, angles, adjacent).float() for x in (q, k))

        return rule

    right = by(plain)
    return {
        "right": right,
        "adjacent": by(plain, adjacent=True),
        "other frequencies": by(slow),
        "one position behind": by(plain, position=lambda p: p - 1),
        "position 0 for everyone": by(plain, position=lambda p: p * 0),
        "position as bfloat16": by(plain, position=lambda p: p.to(torch.bfloat16).long()),
        "position as a byte": by(plain, position=lambda p: p % 256),
        "position stops at 64": by(plain, position=lambda p: p.clamp(max=64)),
        "key not turned": lambda positions, q, k: (right(positions, q, k)[0], k),
        "query not turned": lambda positions, q, k: (q, right(positions, q, k)[1]),
        "right, rounded otherwise": lambda positions, q, k: tuple(
            x * (1 + 3e-7) for x in right(positions, q, k)
        ),
    }


def engine_of(exercises, prefill: str, decode: str):
    named = rules()
    return lambda: exercises.OneLayer(named[prefill], named[decode])


def test_5_7_no_false_alarm(exercises):
    for prefill, decode, longest in (
        ("right", "right, rounded otherwise", 300),
        ("right", "right", 40),
        ("adjacent", "adjacent", 40),
    ):
        expect.equal(
            exercises.find_mismatch(engine_of(exercises, prefill, decode), longest),
            None,
            f"find_mismatch where prefill is {prefill!r} and decode is {decode!r}",
            "outputs less than 1e-4 apart count as equal, and each trial needs a fresh engine or a"
            " prefill of its own",
        )


def test_5_7_finds_where_each_fault_begins(exercises):
    for decode, first in (
        ("adjacent", 1),
        ("other frequencies", 1),
        ("one position behind", 1),
        ("key not turned", 1),
        ("query not turned", 1),
        ("position 0 for everyone", 1),
        ("position stops at 64", 65),
        ("position as a byte", 256),
        ("position as bfloat16", 257),
    ):
        found = exercises.find_mismatch(engine_of(exercises, "right", decode))
        what = f"find_mismatch of a decode with the fault {decode!r}"
        if found is None:
            raise AssertionError(
                f"{what}:\n  got None: it wasn't found\n  hint: it begins at n = {first}; try every"
                " n up to longest - 1, and compare all numbers of the decoded token's output"
            )
        hint = (
            "n is the number of tokens in the prefill, so the decoded token stands at position n;"
            " return the first one that differs"
        )
        expect.equal(found, first, what, hint)


def test_5_7_finds_a_fault_of_the_prefill(exercises):
    found = exercises.find_mismatch(engine_of(exercises, "position stops at 64", "right"))
    expect.equal(
        found,
        65,
        "find_mismatch where the prefill's positions stop at 64",
        "compare with a prefill of n + 1 tokens by the same engine, not with your own computation",
    )


def test_5_7_stops_at_longest(exercises):
    engine = engine_of(exercises, "right", "position stops at 64")
    hint = "n goes from 1 to longest - 1: then prefill(n + 1) reads at most longest tokens"
    expect.equal(exercises.find_mismatch(engine, 65), None, "find_mismatch(…, longest=65)", hint)
    expect.equal(exercises.find_mismatch(engine, 66), 65, "find_mismatch(…, longest=66)", hint)
