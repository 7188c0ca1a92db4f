"""Pages about models: one HTML file each, which needs nothing else."""
