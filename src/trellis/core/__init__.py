"""What every room stands on: errors, checked arguments, array types, kernels, shards, storage."""
