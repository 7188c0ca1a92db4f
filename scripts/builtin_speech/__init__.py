"""Synthetic speech for the builtin model: what is said, where its phones start, how it is recorded."""
