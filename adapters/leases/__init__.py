"""Adapters of the port `Lease`, which lets one process at a time run a pipeline."""
