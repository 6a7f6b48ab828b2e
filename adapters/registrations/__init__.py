"""Catalogs in which tables are registered for other engines."""
