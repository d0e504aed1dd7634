# expects: lanes 0, 8, 16 and 24
#| exercise 4.2 points=3
def predict() -> dict[str, int]:
    """What the profile will say about the loops of sum_modulo and sum_packed, as whole numbers.

    additions          how many additions either kernel makes, all threads and steps together
    modulo_divergent   of the 64 evaluations of the `if` in sum_modulo, how many are divergent
    packed_divergent   the same for sum_packed
    modulo_wavefronts  stride 4: the passes in which the first warp reads scratch[t], sum_modulo
    packed_wavefronts  stride 4: the passes in which the first warp reads scratch[i], sum_packed
    """
    return {
        "additions": 128 + 64 + 32 + 16 + 8 + 4 + 2 + 1,
        "modulo_divergent": 5 * 8 + 4 + 2 + 1,  # strides 1 to 16: every warp; then one lane a warp
        "packed_divergent": 5,  # 128, 64 and 32 threads are whole warps; 16, 8, 4, 2, 1 are not
        "modulo_wavefronts": 4,  # banks 0, 8, 16, 24
        "packed_wavefronts": 8,  # the same four banks, but 32 addresses
    }
