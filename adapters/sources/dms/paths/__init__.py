"""What the paths of DMS's files say: the table, full load or changes, and the order."""
