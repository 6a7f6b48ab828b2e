"""Steps that resolution strategies share: each takes the value of the step before it."""
