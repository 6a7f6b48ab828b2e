"""Settings: where they come from, how they are read and checked, and what is said of wrong ones."""
