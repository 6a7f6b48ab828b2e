"""Rows of files of CSV and Parquet, read by Spark or in this process, and read again once they are repaired."""
