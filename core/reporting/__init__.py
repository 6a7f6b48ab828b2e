"""What a run reports beside its rows: alarms, failures, notices and figures."""
