"""A sequence labeler whose scores come from a network."""
