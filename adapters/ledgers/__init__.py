"""Adapters of the port `Ledger`: what is known of the objects of a source."""
