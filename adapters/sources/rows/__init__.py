"""Rows of CSV and Parquet files: read by Spark or in this process, and read again after a repair."""
