"""Small batches: `lakeward.core.merge.settle` works them out on the driver, from Arrow and into Arrow."""
