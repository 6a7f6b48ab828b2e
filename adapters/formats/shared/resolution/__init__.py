"""Resolution of a batch: the rows that a plan adds to a table and removes from it."""
