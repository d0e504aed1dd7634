# expects: does nothing for rows of more than 1,024
# expects: got None
def find_fault(launch):
    generator = torch.Generator().manual_seed(0)
    vocab_size, poison = 50, -1e9
    for hidden_size in (1, 31, 32, 33, 100, 576, 1023, 1024):
        weight = torch.randn(vocab_size, hidden_size, generator=generator)
        for num_tokens in (1, 2, 33, 70):
            token_ids = torch.randint(vocab_size, (num_tokens,), generator=generator)
            token_ids[-1] = vocab_size - 1
            token_ids[num_tokens // 2] = token_ids[0]
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
