"""Lambda handlers that start the state machine of a pipeline and answer its questions.

A function has a few seconds and a small package. So these modules need no Spark, no Arrow, and no package other
than boto3, which Lambda has. See docs/how-to/aws/orchestration.md.
"""
