"""Hidden Markov models of many states, few of which may follow each other."""
