"""The change log of a table: its entries, how they are read and written, and when they are forgotten."""
