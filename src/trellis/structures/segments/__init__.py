"""Segmentations of a signal."""
