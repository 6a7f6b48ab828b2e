"""Texts of values: types read from text, literals, numbers with their nouns, and suggestions for misspelt names."""
