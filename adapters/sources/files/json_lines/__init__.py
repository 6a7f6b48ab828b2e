"""JSON lines and messages in plain files, read by Spark; their warnings, and their cells in quarantine."""
