"""Resolve batches of whole rows in Arrow columns, in this process: too large for the core, and in memory already."""
