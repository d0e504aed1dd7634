# expects: your prediction for 'slow'
# expects: then count the pairs up to 31
def predict() -> dict[str, float]:
    """The results of six experiments.

    shifted     q at position 9 and k at position 4 have the score 1.5; what score have they at
                positions 1009 and 1004? (head_dim 64, theta 100000)
    at_zero     a key k whose first number is 0.25, turned for position 0: its first number
    length      a query of length 3.0, turned for position 123: its length
    swapped     section 2's example the other way round: q = (2, 0) at position 1, k = (1, 1) at
                position 3, 30 degrees a position; the score, to two decimals
    slow        of the 32 pairs (head_dim 64, theta 100000): how many have a wavelength of more
                than 8192 tokens?
    bf16        position 257 is stored as a bfloat16 before it is multiplied by the frequencies:
                for which position is that token turned?
    """
    return {
        "shifted": 1.5,  # the distance is still 5
        "at_zero": 0.25,  # no turn at all
        "length": 3.0,  # a turn keeps lengths
        "swapped": -0.73,  # 2 · 1.414 · cos(-45° - 60°): before and after are not the same
        "slow": 7.0,  # 100000^(i/32) > 8192 / 2π from i = 20 on
        "bf16": 256.0,  # spacing 2 above 256, and a tie goes to the even one
    }
