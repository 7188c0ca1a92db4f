"""Labels in a row."""
