"""Writes to Hudi tables, and the options that Hudi's writer takes."""
