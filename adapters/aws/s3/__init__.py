"""Shared code of adapters for S3: access, errors, locks, and event messages."""
