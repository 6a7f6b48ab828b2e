"""Rows of a table: system columns, conditions, stored rows before a batch, and rows to write."""
