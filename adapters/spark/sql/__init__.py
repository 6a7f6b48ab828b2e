"""Spark's SQL as text: names, types, literals, keys, casts."""
