"""How Spark executes frames: what it caches, in how many partitions it works, which plans it sees."""
