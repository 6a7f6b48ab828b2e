"""Delta tables that delta-rs writes and reads: what stands beside tables of Delta, and of Hudi."""
