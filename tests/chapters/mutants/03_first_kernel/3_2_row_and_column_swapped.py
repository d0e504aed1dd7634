# expects: first difference at index 1
def source_of(i, token_ids, hidden_size):
    return token_ids[i % len(token_ids)] * hidden_size + i // len(token_ids)
