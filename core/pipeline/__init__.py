"""One batch from discovery to its commit, as named steps."""
