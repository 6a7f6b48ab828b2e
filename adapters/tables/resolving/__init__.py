"""The steps of working out a batch, in the order of `lakeward.adapters.tables.resolve`: each hands on a value."""
