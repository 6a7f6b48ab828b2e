"""One batch of a table, step by step: `discover`, `prepare_batch`, `commit_batch`, `finish_batch`.

`apply_changes` repeats them until nothing waits. `release` and `truncate` are the batches that an operator asks
for.
"""
