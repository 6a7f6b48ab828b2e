"""What is known before a run: layers of settings, secrets, the source catalogue and proposed settings."""
