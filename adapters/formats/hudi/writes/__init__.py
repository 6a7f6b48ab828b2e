"""Writes to Hudi tables, and the options of Hudi's writer."""
