"""What the structure answers about all its outputs at once."""
