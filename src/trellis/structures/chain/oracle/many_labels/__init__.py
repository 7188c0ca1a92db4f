"""Chains of many labels: exact inference over allowed pairs of labels, and beam search with a bound."""
