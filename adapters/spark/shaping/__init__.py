"""Rules of columns and of rows as Spark's SQL, and the shaper that applies them to an event frame."""
