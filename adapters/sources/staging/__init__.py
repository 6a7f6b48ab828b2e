"""Places in a bucket where sources stage the files of a batch for Spark's workers."""
