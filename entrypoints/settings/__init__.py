"""Settings: reading files and stores, validation, effective values of tables, and error messages."""
