"""Answers from samples: forward sampling, likelihood weighting, Gibbs."""
