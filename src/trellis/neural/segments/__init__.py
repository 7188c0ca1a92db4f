"""Segmentations over tensors."""
