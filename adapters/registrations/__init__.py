"""Adapters of the port `Registration`: catalogs in which tables are registered for other engines."""
