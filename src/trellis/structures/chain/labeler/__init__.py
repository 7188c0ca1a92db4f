"""The estimator."""
