"""Phone labels, alphabets and foldings."""
