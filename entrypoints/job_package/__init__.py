"""Packages of jobs for AWS Glue and EMR: equal inputs give equal files.

`lakeward package` writes them (docs/how-to/aws/package.md). The lock files in this folder pin the dependencies of
lakeward on each line of Spark, with hashes; `make lock` writes them, with the versions of `requirements/`.
"""
