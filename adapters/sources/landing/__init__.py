"""Landing folders, on a disk or in a bucket: their files, and the selection of those that the next batch reads."""
