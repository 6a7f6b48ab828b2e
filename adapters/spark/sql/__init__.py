"""Spark SQL as text: names, types, literals, keys and casts."""
