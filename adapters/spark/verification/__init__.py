"""Verification as queries of Spark: comparison with the source, and the rules of a history."""
