"""Learning and inference of hidden Markov models over shards of sequences."""
