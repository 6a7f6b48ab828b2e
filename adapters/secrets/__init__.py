"""Places where secrets of the settings are kept."""
