"""Registries of schemas, and messages in Avro as the JSON that Kafka Connect would have written."""
