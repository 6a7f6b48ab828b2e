"""What adapters share that reach a service of AWS: clients, error messages, and access to S3 and DynamoDB."""
