"""Weights: how a model lies on disk, and how its numbers are read."""
