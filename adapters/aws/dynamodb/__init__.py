"""Access to DynamoDB, and what it says in a person's words."""
