# expects: first difference at index 1: got 6, expected 7
def source_of(i, token_ids, hidden_size):
    return token_ids[i // hidden_size] * hidden_size
