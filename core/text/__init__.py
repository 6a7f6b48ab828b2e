"""Texts of values: types read from text, literals, numbers with nouns, and suggestions for misspelt names."""
