# expects: 'all_the_same'
# expects: got 32, expected 1
def predict():
    return {
        "neighbours": 4,
        "every_second": 8,
        "every_32nd": 32,
        "one_further": 5,
        "backwards": 4,
        "all_the_same": 32,
        "bf16_neighbours": 2,
        "wide_neighbours": 16,
    }
