"""Handlers of AWS Lambda that stand around a pipeline: they start it and watch it, and run none of it.

A function has few seconds and a small package: nothing here needs Spark, Arrow or another package than boto3, which
Lambda has (docs/how-to/aws/orchestration.md).
"""
