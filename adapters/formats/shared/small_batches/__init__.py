"""Small batches: the core works them out on the driver, from Arrow and into Arrow."""
