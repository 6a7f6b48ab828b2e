"""Joined tables and their source tables."""
