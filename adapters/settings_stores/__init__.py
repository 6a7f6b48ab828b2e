"""Places where settings are kept: files, objects of S3, and services of AWS."""
