"""All that a job of AWS Glue or EMR needs, as files that are equal whenever they are made of the same things.

`lakeward package` makes it (docs/how-to/aws/package.md). The locks beside these modules pin what lakeward needs on
each line of Spark, with hashes; `make lock` writes them, with the versions of `requirements/`.
"""
