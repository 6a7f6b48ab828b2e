"""Transactions of a topic, of which a batch has all changes of a table or none."""
