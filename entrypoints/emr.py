"""The script of an application of EMR, on machines or serverless (docs/how-to/aws/jobs.md): `--settings s3://…`."""

from __future__ import annotations

import sys

from lakeward.entrypoints import job


def main() -> None:
    """Run by the arguments; the exit status is 0, or 1 after the exception of a failed job."""
    job.run(sys.argv[1:])


if __name__ == "__main__":
    main()
