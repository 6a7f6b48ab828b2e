"""Sources of changes, and what they share: folders, forms of files, messages and rows on their way to events."""
