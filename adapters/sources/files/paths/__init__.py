"""Paths of plain files: the order of files, their snapshots, and values of columns."""
