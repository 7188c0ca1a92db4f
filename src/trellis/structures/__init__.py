"""The shapes of outputs, one folder each: chains, segmentations, graphs."""
