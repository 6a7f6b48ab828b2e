"""Joined tables, and the tables that they are made of."""
