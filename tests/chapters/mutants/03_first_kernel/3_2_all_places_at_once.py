# expects: wrong shape
# expects: needn't be all of the output
def source_of(i, token_ids, hidden_size):
    i = np.arange(len(token_ids) * hidden_size)
    return token_ids[i // hidden_size] * hidden_size + i % hidden_size
