"""Metrics of a run for monitoring: CloudWatch reads them from the log, Prometheus requests them by HTTP."""
