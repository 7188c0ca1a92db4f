"""Factor graphs over tensors."""
