"""Weights: from files on disk to tensors in memory."""
