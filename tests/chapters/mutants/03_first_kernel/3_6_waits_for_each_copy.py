# expects: copies under way
# expects: got 0, expected 1
def upload(stream, batches, buffers, targets):
    for i, (batch, target) in enumerate(zip(batches, targets)):
        staged = buffers[i % len(buffers)][: len(batch)]
        staged.copy_(batch)
        stream.copy(target, staged)
        stream.record().synchronize()
