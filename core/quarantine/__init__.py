"""Rows that could not be applied: the keys that they hold, their repair, and their replay."""
