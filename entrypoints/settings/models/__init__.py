"""The models of the settings' sections and tables, and the core's values that are made of them."""
