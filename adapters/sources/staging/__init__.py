"""Prefixes of a bucket in which sources stage the files of a batch for Spark's workers."""
