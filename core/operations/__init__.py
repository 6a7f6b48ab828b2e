"""What operators do to a table: adopt, explain, maintain, reload, roll back, truncate and acknowledge alarms."""
