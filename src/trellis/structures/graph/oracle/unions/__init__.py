"""Many small graphs, answered together."""
