"""One small module a command; each adds itself to the application."""
