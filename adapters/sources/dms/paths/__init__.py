"""Paths of DMS files: the table, full load or changes, and the order."""
