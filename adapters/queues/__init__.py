"""Adapters of the port `Queue`: lists of tables that may have something new."""
