"""What is known before a run: layers of settings, secrets, the source's catalogue and proposed settings."""
