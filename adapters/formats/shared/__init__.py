"""Code that the table formats share: rows, change log, quarantine, resolution of batches, operations."""
