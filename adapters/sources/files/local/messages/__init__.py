"""Decoders of messages in plain Python; they equal those of `lakeward.adapters.sources.messages`, which are SQL."""
