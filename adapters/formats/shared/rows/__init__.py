"""Rows of a table: columns of lakeward, conditions on rows, rows before a batch, rows to be written."""
