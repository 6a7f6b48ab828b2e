"""Shared code of adapters for AWS services: clients, error messages, and access to S3 and DynamoDB."""
