"""Column rules and quality rules: what becomes of a source row before it is merged."""
