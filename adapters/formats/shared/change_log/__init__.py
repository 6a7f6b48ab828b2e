"""The change log of a table: its entries, how they are written, read and trimmed."""
