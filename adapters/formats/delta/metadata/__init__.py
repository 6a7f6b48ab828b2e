"""Metadata of Delta tables: the log, its commits, and the progress in them."""
