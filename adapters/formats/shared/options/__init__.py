"""Options of tables that each format has, and checks against the columns that the settings declare."""
