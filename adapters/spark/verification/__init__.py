"""Verification by Spark queries: comparison with the source, and the rules of a history."""
