"""Adapters of the port `Ledger`: the record of the objects of a source."""
