"""Small batches: the core resolves them on the driver, from Arrow and into Arrow."""
