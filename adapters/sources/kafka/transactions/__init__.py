"""Batches that end between transactions: each has all changes of a transaction of a table, or none."""
