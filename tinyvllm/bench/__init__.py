"""Benchmarks: a number is never alone, but with its machine, its load and its peer."""
