"""Column rules and quality rules as Spark SQL, and the shaper that applies them to an event frame."""
