"""Figures of a run as those who watch it take them: CloudWatch from the log, Prometheus by HTTP."""
