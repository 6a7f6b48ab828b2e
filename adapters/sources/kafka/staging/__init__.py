"""Messages of a broker as lines of files, from when they are read until they are applied."""
