"""The phases of `lakeward.core.merge.settle`, in order: each takes the value of the one before and returns one."""
