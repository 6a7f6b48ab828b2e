"""Schema registries, and the conversion of Avro messages into the JSON that Kafka Connect would have written."""
