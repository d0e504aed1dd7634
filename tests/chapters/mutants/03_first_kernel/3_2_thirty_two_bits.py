# expects: 262,143
# expects: no room in 32 bits
def source_of(i, token_ids, hidden_size):
    row = token_ids[i // hidden_size].astype(np.int32)
    return (row * np.int32(hidden_size) + i % hidden_size).astype(np.int64)
