"""Joined tables: rows or versions made of several mirrors or histories, kept up by the keys that were touched."""
