"""Corpora: recordings with what is said in them."""
