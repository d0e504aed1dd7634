# expects: got None
# expects: the last row of the table: try its id
def find_fault(launch):
    generator = torch.Generator().manual_seed(0)
    vocab_size, poison = 50, -1e9
    for hidden_size in (1, 31, 32, 33, 100, 576, 1023, 1024, 1025, 2048, 2500):
        weight = torch.randn(vocab_size, hidden_size, generator=generator)
        for num_tokens in (1, 2, 33):
            token_ids = torch.arange(num_tokens) % vocab_size
            expected = torch.full((num_tokens + 2, hidden_size), poison)
            buffer = expected.clone()
            expected[1:-1] = weight[token_ids]
            try:
                launch(buffer[1:-1], token_ids, weight)
            except Exception:
                return num_tokens, hidden_size
            if not torch.equal(buffer, expected):
                return num_tokens, hidden_size
    return None
