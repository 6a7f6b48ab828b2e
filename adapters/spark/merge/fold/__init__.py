"""Folds of events in order, as expressions of Spark's SQL."""
