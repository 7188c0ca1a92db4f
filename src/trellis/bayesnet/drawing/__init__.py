"""Networks as pictures and tables as text."""
