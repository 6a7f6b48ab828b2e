"""Reader of Debezium messages in Arrow columns: for batches that are too large for plain Python."""
