"""Joined tables as frames: the rows they should have, and what has to be written and removed."""
