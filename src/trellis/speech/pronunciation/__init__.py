"""Pronunciations of words: from a dictionary, and by rules learned from one for words that are not in it."""
