# expects: 'neighbours'
# expects: got 1, expected 4
def predict():
    return {
        "neighbours": 1,
        "every_second": 1,
        "every_32nd": 1,
        "one_further": 5,
        "backwards": 4,
        "all_the_same": 1,
        "bf16_neighbours": 2,
        "wide_neighbours": 16,
    }
