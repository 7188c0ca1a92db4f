"""How sure an alignment is, and whether its transcript is what was said."""
