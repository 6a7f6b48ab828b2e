"""What no batch may do to its table: each check says what was found and what an operator can do."""
