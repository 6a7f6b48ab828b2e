"""Change data capture into lakehouse tables, on Spark."""

__version__ = "0.1.0"
