"""Leases, which keep two processes from working on one table."""
