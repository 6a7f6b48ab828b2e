"""Adapters of the port `SettingsStore`: files, objects of S3, and services of AWS."""
