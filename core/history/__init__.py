"""Histories: every version of a row with its validity (SCD type 2), from events in any order."""
