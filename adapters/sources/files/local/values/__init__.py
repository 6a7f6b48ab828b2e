"""JSON values in plain Python, converted to typed values exactly as Spark converts them."""
