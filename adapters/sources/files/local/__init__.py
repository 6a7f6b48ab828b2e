"""Small batches of plain files, read in plain Python, without a job of Spark."""
