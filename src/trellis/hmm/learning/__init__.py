"""Learning hidden Markov models: EM, its starts, EM online, discriminative training; EM of mixtures."""
