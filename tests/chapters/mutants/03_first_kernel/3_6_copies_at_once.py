# expects: copies under way
# expects: got 0, expected 1
def upload(stream, batches, buffers, targets):
    for batch, target in zip(batches, targets):
        target.copy_(batch)
