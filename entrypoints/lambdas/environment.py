"""The environment variables of the functions."""

from __future__ import annotations

import os
from typing import Final

from lakeward.core.errors import ConfigError

PIPELINE: Final = "LAKEWARD_PIPELINE"
"""The name of the pipeline, as `[pipeline]` has it."""

STATE_MACHINE: Final = "LAKEWARD_STATE_MACHINE"
"""The ARN of the state machine of the pipeline; `start_run` alone needs it."""

LEASES: Final = "LAKEWARD_LEASES"
"""The DynamoDB table of leases (docs/reference/lease.md)."""

DMS_TASK: Final = "LAKEWARD_DMS_TASK"
"""The ARN of the replication task of DMS; `dms_status` alone needs it."""


def read_variable(name: str) -> str:
    """Return an environment variable of the function; raises ConfigError where it is not set."""
    value = os.environ.get(name, "").strip()
    if not value:
        raise ConfigError(
            f"the environment variable {name} of the function is not set",
            todo="Set it as docs/how-to/aws/orchestration.md lists it.",
        )
    return value
