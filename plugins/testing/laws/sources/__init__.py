"""The laws of a source."""
