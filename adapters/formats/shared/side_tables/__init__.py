"""The two tables beside each table: its change log and its quarantine."""
