"""The phases of settling a delivery, which `lakeward.core.settle` runs in order: each hands a value to the next."""
