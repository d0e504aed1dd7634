# expects: 'every_32nd'
# expects: got 128, expected 32
def predict():
    return {
        "neighbours": 4,
        "every_second": 8,
        "every_32nd": 128,
        "one_further": 5,
        "backwards": 4,
        "all_the_same": 1,
        "bf16_neighbours": 2,
        "wide_neighbours": 16,
    }
