"""Databases as the source `jdbc` queries them: the port, its reader with Spark, dialects and error messages."""
