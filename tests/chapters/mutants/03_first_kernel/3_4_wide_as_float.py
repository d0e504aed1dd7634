# expects: 'wide_neighbours'
# expects: got 4, expected 16
def predict():
    return {
        "neighbours": 4,
        "every_second": 8,
        "every_32nd": 32,
        "one_further": 5,
        "backwards": 4,
        "all_the_same": 1,
        "bf16_neighbours": 2,
        "wide_neighbours": 4,
    }
