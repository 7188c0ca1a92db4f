"""Learning as a problem for solvers: data, an objective and a loss."""
