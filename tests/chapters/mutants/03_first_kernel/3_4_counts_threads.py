# expects: 'neighbours'
# expects: got 32, expected 4
def predict():
    return {
        "neighbours": 32,
        "every_second": 8,
        "every_32nd": 32,
        "one_further": 5,
        "backwards": 4,
        "all_the_same": 1,
        "bf16_neighbours": 2,
        "wide_neighbours": 16,
    }
