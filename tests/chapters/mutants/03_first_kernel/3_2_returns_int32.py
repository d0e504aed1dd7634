# expects: wrong dtype: got int32, expected int64
def source_of(i, token_ids, hidden_size):
    return (token_ids[i // hidden_size] * hidden_size + i % hidden_size).astype(np.int32)
