"""Merging as frames: duplicates, ties, truncates, held keys, and the row that wins for each key."""
