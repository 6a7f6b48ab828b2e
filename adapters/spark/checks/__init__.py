"""Checks of a batch that read its event frame."""
