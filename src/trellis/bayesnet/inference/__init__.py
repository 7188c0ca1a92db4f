"""Questions about probabilities, exact and approximate."""
