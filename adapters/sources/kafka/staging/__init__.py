"""Staged files of a broker's messages, from landing until they are applied."""
