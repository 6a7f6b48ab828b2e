"""Running a pipeline: the scheduler of tables, its workers, and following."""
