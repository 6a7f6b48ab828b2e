"""What sources of files share: folders and what lies in them, forms of files, rows on their way to events."""
