"""The two side tables of each table: its change log and its quarantine."""
