"""JSON values: the forms in which messages write them, and their conversion to typed values."""
