"""Proof that a table equals its source, and that a history keeps its rules."""
