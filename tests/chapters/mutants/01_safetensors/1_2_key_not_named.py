# expects: don't say 'q_proj'
def reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The dict of one JSON object's (key, value) pairs. Raises DuplicateKey, naming the key."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise DuplicateKey("a key stands twice")
        result[key] = value
    return result
