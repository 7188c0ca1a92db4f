"""Classifiers of frames and boundaries, and durations."""
