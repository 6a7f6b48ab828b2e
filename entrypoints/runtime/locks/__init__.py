"""Mutual exclusion of the writers of a pipeline: a file lock on one machine, a lease across machines."""
