"""Access to DynamoDB, and its errors."""
