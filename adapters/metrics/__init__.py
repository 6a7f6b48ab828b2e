"""Metrics of a run for monitoring: CloudWatch reads them from the log, Prometheus by HTTP."""
