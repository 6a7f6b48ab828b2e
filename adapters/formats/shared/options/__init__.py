"""Options of tables that all formats share, and their checks against declared columns."""
