"""Sequences in shards: cut by the data alone, kept small, and placed where the work on them is done."""
