# expects: wrong dtype: got float64, expected int64
def source_of(i, token_ids, hidden_size):
    return (token_ids[(i / hidden_size).astype(int)] * hidden_size + i % hidden_size) / 1
