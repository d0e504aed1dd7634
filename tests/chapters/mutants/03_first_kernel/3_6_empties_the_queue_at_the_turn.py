# expects: copies under way
# expects: with 2 buffer(s)
def upload(stream, batches, buffers, targets):
    for i, (batch, target) in enumerate(zip(batches, targets)):
        if i >= len(buffers):
            stream.synchronize()
        staged = buffers[i % len(buffers)][: len(batch)]
        staged.copy_(batch)
        stream.copy(target, staged)
