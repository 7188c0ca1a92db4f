"""Whole passes of solvers in compiled code."""
