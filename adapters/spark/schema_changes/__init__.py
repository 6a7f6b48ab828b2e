"""Changes of a table's columns, as frames."""
