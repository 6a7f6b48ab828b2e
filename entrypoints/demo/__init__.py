"""The demo: a database that really changes, what DMS would write of it, and the comparison at the end."""
