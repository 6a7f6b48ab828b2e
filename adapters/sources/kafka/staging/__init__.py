"""Messages of a broker as lines of staged files, until they are applied."""
