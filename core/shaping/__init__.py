"""Column rules and quality rules: what happens to a source row before it is merged."""
