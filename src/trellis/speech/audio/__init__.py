"""Recordings and their frames."""
