"""Verification: a comparison of all rows of a table with its source, or of a history with its rules."""
