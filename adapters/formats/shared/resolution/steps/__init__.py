"""Steps shared by the resolution strategies. Each takes the result of the step before it."""
