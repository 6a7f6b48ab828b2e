"""Start of a command: open settings, complete them from the source and its catalogue, and check the parts."""
