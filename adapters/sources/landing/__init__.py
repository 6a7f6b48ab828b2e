"""Landing folders, on a disk or in a bucket: which files they have, and which of them the next batch takes."""
