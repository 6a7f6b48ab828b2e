"""The environment variables of the functions."""

from __future__ import annotations

import os
from typing import Final

from lakeward.core.errors import ConfigError

PIPELINE: Final = "LAKEWARD_PIPELINE"
"""The name of the pipeline in `[pipeline]`."""

STATE_MACHINE: Final = "LAKEWARD_STATE_MACHINE"
"""The ARN of the state machine of the pipeline. Only `start_run` needs it."""

LEASES: Final = "LAKEWARD_LEASES"
"""The DynamoDB table of leases (docs/reference/lease.md)."""

DMS_TASK: Final = "LAKEWARD_DMS_TASK"
"""The ARN of the replication task of DMS. Only `dms_status` needs it."""


def read_variable(name: str) -> str:
    """Return an environment variable of the function; raises ConfigError if it is not set."""
    value = os.environ.get(name, "").strip()
    if not value:
        raise ConfigError(
            f"the environment variable {name} of the function is not set",
            todo="docs/how-to/aws/orchestration.md lists the variables.",
        )
    return value
