"""Labels on the nodes of a graph."""
