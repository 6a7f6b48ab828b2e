"""Plain files of JSON lines and of messages, read by Spark."""
