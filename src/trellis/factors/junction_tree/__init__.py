"""Exact sums and maxima of a product of factors, by a junction tree that is planned once."""
