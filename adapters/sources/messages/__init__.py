"""Decoders of change messages, whatever carried them: files, or a topic of Kafka."""
