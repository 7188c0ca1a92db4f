"""Sequences in shards: where they lie, what they are asked, and the problem of a sum over them."""
