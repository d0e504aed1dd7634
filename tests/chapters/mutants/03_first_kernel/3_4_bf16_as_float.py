# expects: 'bf16_neighbours'
# expects: got 4, expected 2
def predict():
    return {
        "neighbours": 4,
        "every_second": 8,
        "every_32nd": 32,
        "one_further": 5,
        "backwards": 4,
        "all_the_same": 1,
        "bf16_neighbours": 4,
        "wide_neighbours": 16,
    }
