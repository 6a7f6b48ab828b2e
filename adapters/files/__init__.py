"""The source `files`: files that something else than DMS wrote."""
