"""Solvers that update after every example or mini-batch."""
