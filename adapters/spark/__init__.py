"""What the Spark adapters share: the session, and functions from DataFrame to DataFrame."""
