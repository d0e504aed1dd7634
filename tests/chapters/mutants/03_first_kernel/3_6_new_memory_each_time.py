# expects: copies under way
# expects: expected 1
def upload(stream, batches, buffers, targets):
    for batch, target in zip(batches, targets):
        stream.copy(target, batch.clone())
