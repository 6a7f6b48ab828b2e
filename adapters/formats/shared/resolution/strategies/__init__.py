"""Strategies that resolve a batch with Spark, one for each kind of batch."""
