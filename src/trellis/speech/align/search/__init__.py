"""Where phones are: paths through lattices, tolerances, long recordings."""
