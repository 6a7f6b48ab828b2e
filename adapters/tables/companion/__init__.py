"""What a table remembers beside itself: its entries, how they are read and written, and when they are forgotten."""
