"""Differences of convex functions: the DC algorithm and the latent structural SVM."""
