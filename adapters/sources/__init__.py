"""Sources of changes, and their shared packages: landing folders, formats, messages, rows and staging."""
