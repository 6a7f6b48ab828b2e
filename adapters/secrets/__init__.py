"""Adapters of the port `Secrets`: places where the secrets that settings name are stored."""
