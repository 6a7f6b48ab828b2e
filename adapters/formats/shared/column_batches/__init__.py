"""Resolve batches of whole rows in Arrow columns, in this process: batches that are too large for the core."""
