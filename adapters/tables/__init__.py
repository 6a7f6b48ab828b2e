"""What table formats share that Spark writes and two tables beside each complete: memory, quarantine, resolving."""
