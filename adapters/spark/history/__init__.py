"""Histories as frames: versions of rows, their instants and their surrogate numbers."""
