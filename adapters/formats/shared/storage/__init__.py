"""Folders and files of tables, on a disk or in a bucket, without Spark."""
