# expects: target 0 after uploading 7 batches with 1 buffer
# expects: got 600, expected 0
def upload(stream, batches, buffers, targets):
    for batch, target in zip(batches, targets):
        staged = buffers[0][: len(batch)]
        staged.copy_(batch)
        stream.copy(target, staged)
