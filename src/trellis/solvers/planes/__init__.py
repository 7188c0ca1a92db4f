"""Solvers that collect cutting planes and certify a duality gap: cutting planes, Frank-Wolfe."""
