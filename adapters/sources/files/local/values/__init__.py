"""Values of JSON in plain Python, converted as Spark converts them."""
