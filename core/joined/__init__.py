"""Joined tables: rows or versions made of several mirrors or histories, refreshed by the keys that changed."""
