"""The event frame of a batch, in Spark or as a table of Arrow, and the summary that the core needs of it."""
