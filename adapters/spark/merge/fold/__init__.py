"""Apply events to rows in position order, by expressions of Spark SQL."""
