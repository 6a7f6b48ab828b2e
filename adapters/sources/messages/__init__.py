"""Decoders of change messages of Debezium and DMS, which come in files or from a Kafka topic."""
