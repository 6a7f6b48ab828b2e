"""The event frame of a batch, in Spark or in Arrow, and the summary of it that the core needs."""
