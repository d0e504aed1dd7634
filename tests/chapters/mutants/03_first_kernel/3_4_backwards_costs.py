# expects: 'backwards'
# expects: got 32, expected 4
# expects: order of the threads
def predict():
    return {
        "neighbours": 4,
        "every_second": 8,
        "every_32nd": 32,
        "one_further": 5,
        "backwards": 32,
        "all_the_same": 1,
        "bf16_neighbours": 2,
        "wide_neighbours": 16,
    }
