"""The arithmetic of a model, one idea a file; `table` gathers it for a model to hold."""
