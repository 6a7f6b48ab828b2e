"""Decoders of messages in plain Python, with results equal to those of the SQL in `adapters.sources.messages`."""
