# expects: the kernels without a prediction
# expects: backwards
def predict():
    return {
        "neighbours": 4,
        "every_second": 8,
        "every_32nd": 32,
        "one_further": 5,
        "all_the_same": 1,
        "bf16_neighbours": 2,
        "wide_neighbours": 16,
    }
