"""What happens before the first batch: settings are opened and completed from the source, and parts are checked."""
