# expects: each trial needs a fresh engine or a
def find_mismatch(make_engine, longest: int = 300) -> int | None:
    """The first n in 1 .. longest - 1 for which prefill(n) + decode(1) isn't prefill(n + 1).

    Outputs that differ by less than 1e-4 count as equal. None if there is no such n.
    """
    q, k, v = random_qkv(longest)
    expected = make_engine().prefill(q, k, v)
    engine = make_engine()
    engine.prefill(q[:1], k[:1], v[:1])
    for n in range(1, longest):
        actual = engine.decode(q[n : n + 1], k[n : n + 1], v[n : n + 1])
        if (actual[0] - expected[n]).abs().max() > 1e-4:
            return n
        engine.decode(q[n : n + 1], k[n : n + 1], v[n : n + 1])
    return None
