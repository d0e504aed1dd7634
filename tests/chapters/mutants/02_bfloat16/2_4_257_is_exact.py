# expects: 257 is a tie
#| exercise 2.4 points=2
def predict() -> dict[str, float]:
    """The results of six experiments, as plain numbers. float("inf") is a number, too.

    stored_257     257.0, stored as bfloat16
    bf16_70000     70000.0, stored as bfloat16 (its neighbours are 69632, 70144 and 70656)
    fp16_70000     70000.0, stored as float16
    ones           a bfloat16 total starts at 0; add 1.0 a thousand times
    ones_to_1000   a bfloat16 total starts at 1000; add 1.0 a thousand times
    ones_in_fp32   a float32 total starts at 0; add 1.0 a thousand times; store it as bfloat16
    """
    return {
        "stored_257": 257.0,
        "bf16_70000": 70144.0,
        "fp16_70000": float("inf"),
        "ones": 256.0,
        "ones_to_1000": 1000.0,
        "ones_in_fp32": 1000.0,
    }
