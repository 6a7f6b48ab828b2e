"""Adapters of the port `Secrets`: places where secrets of the settings are kept."""
