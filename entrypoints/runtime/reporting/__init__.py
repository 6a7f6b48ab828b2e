"""What a run reports while it works and when it ends: logs, metrics, notifications, failures, statuses."""
