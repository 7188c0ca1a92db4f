"""L-BFGS, and OWL-QN for the L1 norm."""
