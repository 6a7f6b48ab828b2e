"""Metadata of Hudi tables: the timeline, properties, columns, and the progress in commits."""
