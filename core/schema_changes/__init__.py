"""How the columns of a source and of its table differ, and the policies for each difference."""
