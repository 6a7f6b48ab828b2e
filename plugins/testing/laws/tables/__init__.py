"""The laws of a table."""
