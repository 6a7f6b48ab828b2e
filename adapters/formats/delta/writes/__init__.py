"""Writes to Delta tables: data files, deletion vectors, and the commit of a change."""
