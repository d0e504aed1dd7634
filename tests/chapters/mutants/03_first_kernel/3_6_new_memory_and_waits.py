# expects: the buffers that the copies of 5 batches read
# expects: another one
def upload(stream, batches, buffers, targets):
    read = []
    for i, (batch, target) in enumerate(zip(batches, targets)):
        if i >= len(buffers):
            read[i - len(buffers)].synchronize()
        stream.copy(target, batch.clone())
        read.append(stream.record())
