"""Files of CSV as their text shows them: records, headers, layouts of columns, samples of unknown files."""
