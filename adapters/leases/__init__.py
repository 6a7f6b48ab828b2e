"""Adapters of the port `Lease`, which keeps two processes from running one pipeline at the same time."""
