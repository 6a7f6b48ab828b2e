"""Files of transactions, which hold rows of many tables: read once, staged until each table has its rows."""
