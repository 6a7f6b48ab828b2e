"""How Spark executes frames: caches, partitions and query plans."""
