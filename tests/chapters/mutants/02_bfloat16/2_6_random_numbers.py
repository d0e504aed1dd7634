# expects: rounds every tie up
#| exercise 2.6 points=4
def find_fault(convert) -> int | None:
    """The 32 bits of a float32 that `convert` gets wrong, or None if it gets all cases right.

    `convert` takes [n] float32 and returns [n] uint16. torch may be the oracle.
    """
    x = np.random.default_rng(0).standard_normal(100_000, np.float32)
    wrong = convert(x) != torch.from_numpy(x).to(torch.bfloat16).view(torch.uint16).numpy()
    return int(x.view(np.uint32)[wrong.argmax()]) if wrong.any() else None
