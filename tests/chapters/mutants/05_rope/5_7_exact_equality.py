# expects: outputs less than 1e-4 apart count as equal
def find_mismatch(make_engine, longest: int = 300) -> int | None:
    """The first n in 1 .. longest - 1 for which prefill(n) + decode(1) isn't prefill(n + 1).

    Outputs that differ by less than 1e-4 count as equal. None if there is no such n.
    """
    q, k, v = random_qkv(longest)
    # Nobody sees the future: row n of the longest prefill is the last row of prefill(n + 1).
    expected = make_engine().prefill(q, k, v)
    for n in range(1, longest):
        engine = make_engine()
        engine.prefill(q[:n], k[:n], v[:n])
        actual = engine.decode(q[n : n + 1], k[n : n + 1], v[n : n + 1])
        if not torch.equal(actual[0], expected[n]):
            return n
    return None
