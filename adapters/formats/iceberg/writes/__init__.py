"""Writes to Iceberg tables: data files, position deletes, and the commit of a change."""
