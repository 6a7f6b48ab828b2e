"""Adapters of the port `Queue`: which tables may have something new."""
