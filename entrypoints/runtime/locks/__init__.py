"""One writer per pipeline: a lock on this machine, and a lease among machines."""
