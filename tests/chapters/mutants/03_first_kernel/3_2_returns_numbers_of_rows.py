# expects: first difference at index 0: got 2, expected 6
def source_of(i, token_ids, hidden_size):
    return token_ids[i // hidden_size]
