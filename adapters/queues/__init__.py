"""Queues that say which tables may have something new."""
