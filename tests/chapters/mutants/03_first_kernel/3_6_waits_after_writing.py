# expects: target 0 after uploading 7 batches
def upload(stream, batches, buffers, targets):
    read = {}
    for i, (batch, target) in enumerate(zip(batches, targets)):
        turn = i % len(buffers)
        staged = buffers[turn][: len(batch)]
        staged.copy_(batch)
        if turn in read:
            read[turn].synchronize()
        stream.copy(target, staged)
        read[turn] = stream.record()
