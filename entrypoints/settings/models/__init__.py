"""Models of the sections and tables of the settings, and their conversion to values of the core."""
