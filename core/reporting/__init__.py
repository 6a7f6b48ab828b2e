"""What a run reports besides rows: alarms, failures, notices and figures."""
