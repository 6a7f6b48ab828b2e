"""Differences between the columns of a source and those of its table, and the policy for each."""
