"""One convolutional network for the classes of frames, their articulation, and the boundaries of pairs of
phones."""
