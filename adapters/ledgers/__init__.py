"""Ledgers, which keep what is known of the objects of a source."""
