# expects: with the values None and 1
def reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The dict of one JSON object's (key, value) pairs. Raises DuplicateKey, naming the key."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        if result.get(key):
            raise DuplicateKey(f"the key {key!r} stands twice in one object of the header")
        result[key] = value
    return result
