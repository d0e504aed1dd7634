# expects: the rows of 7 ids in a table [5, 4]
# expects: but the table has 0 to 19
def source_of(i, token_ids, hidden_size):
    return token_ids[i // len(token_ids)] * len(token_ids) + i % len(token_ids)
