"""Readers of small batches of plain files in plain Python, which need no Spark job."""
