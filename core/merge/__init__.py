"""What a merge plan means: facts of a batch, the fold of its events, ties, truncates and the change log."""
