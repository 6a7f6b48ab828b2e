"""Small batches: `lakeward.core.settle` works them out on the driver, from Arrow and into Arrow."""
