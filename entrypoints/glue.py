"""The script of a job of AWS Glue (docs/how-to/aws/jobs.md).

Its arguments are `--settings s3://bucket/lakeward.toml`, and what Glue adds.

No job bookmark is kept, since tables keep their own progress, and no GlueContext is needed.
"""

from __future__ import annotations

import sys
from typing import Final

from lakeward.entrypoints import job

RESERVED: Final = frozenset(
    (
        "additional-python-modules", "auto-scale-within-microbatch", "class", "conf",
        "continuous-log-conversionPattern", "continuous-log-logGroup", "continuous-log-logStreamPrefix",
        "customer-driver-env-vars", "customer-executor-env-vars", "debug", "disable-proxy-v2",
        "enable-auto-scaling", "enable-continuous-cloudwatch-log", "enable-continuous-log-filter",
        "enable-glue-datacatalog", "enable-job-insights", "enable-lakeformation-fine-grained-access",
        "enable-metrics", "enable-observability-metrics", "enable-rename-algorithm-v2",
        "enable-s3-parquet-optimized-committer", "enable-spark-ui", "encryption-type", "encryption_type",
        "endpoint", "executor-cores", "extra-files", "extra-jars", "extra-py-files", "job-bookmark-from",
        "job-bookmark-option", "job-bookmark-to", "job-language", "JOB_ID", "JOB_NAME", "JOB_RUN_ID", "mode",
        "python-modules-installer-option", "redshift_temp_directory", "RedshiftTempDir", "scriptLocation",
        "SECURITY_CONFIGURATION", "spark-event-logs-path", "TempDir", "use-postgres-driver", "user-jars-first",
        "WORKFLOW_NAME", "WORKFLOW_RUN_ID", "write-shuffle-files-to-s3", "write-shuffle-spills-to-s3",
    )
)
"""Arguments that Glue adds: "Using job parameters in AWS Glue jobs" (docs.aws.amazon.com/glue)."""


def main() -> None:
    """Run by the arguments of the job; Glue shows the exception of a failed job."""
    job.run(sys.argv[1:], RESERVED)


if __name__ == "__main__":
    main()
