"""Metadata of Iceberg tables: the catalog, columns, and the progress in snapshots."""
