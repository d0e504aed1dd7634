# expects: copies under way
# expects: with 2 buffer(s)
def upload(stream, batches, buffers, targets):
    event = None
    for i, (batch, target) in enumerate(zip(batches, targets)):
        if event is not None:
            event.synchronize()
        staged = buffers[i % len(buffers)][: len(batch)]
        staged.copy_(batch)
        stream.copy(target, staged)
        event = stream.record()
