"""Checks that refuse a batch: each error says what was found and what an operator can do."""
