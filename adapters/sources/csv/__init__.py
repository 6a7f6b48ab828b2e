"""CSV files as text: records, headers, column layouts, and samples of files that are not configured yet."""
