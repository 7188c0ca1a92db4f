"""How an aligner learns: the network, the weights, corrections."""
