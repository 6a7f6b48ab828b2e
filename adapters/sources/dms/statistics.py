"""Statistics of a replication task, in files that the AWS command line writes.

`aws dms describe-table-statistics --replication-task-arn … > statistics.json` states for each table when its full
load began and ended, and how many rows it wrote
(docs.aws.amazon.com/dms/latest/APIReference/API_TableStatistics.html).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.ledger.full_loads import LoadStatus

COMPLETED: Final = "Table completed"
"""The state of a table whose full load has ended without error; it stays while changes are captured."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class StatisticsOptions(BaseModel):
    """What `aws dms describe-table-statistics` wrote, of one task or of several."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    path: str = Field(
        description="The JSON file, or a folder of such files; a relative path is relative to the settings file."
    )


class _Table(BaseModel):
    """A table of a task, with the names of fields of AWS; other fields are ignored."""

    schema_: str = Field(alias="SchemaName")
    table: str = Field(alias="TableName")
    state: str | None = Field(None, alias="TableState")
    began: AwareDatetime | None = Field(None, alias="FullLoadStartTime")
    ended: AwareDatetime | None = Field(None, alias="FullLoadEndTime")
    rows: int | None = Field(None, alias="FullLoadRows")

    @property
    def name(self) -> TableName:
        return TableName(self.schema_, self.table)


class _Document(BaseModel):
    tables: list[_Table] = Field(alias="TableStatistics")


@dataclass(frozen=True, slots=True)
class StatisticsFile:
    """A JSON file, or a folder of such files, which are read anew each time."""

    path: Path

    def full_load(self, table: TableName) -> LoadStatus | None:
        """Return the load status of a table, or None if no file has one.

        Of several tasks, that of the latest full load.

        Raises ConfigError for a file that cannot be read.
        """
        records = [one for file in self._files() for one in _read(file) if one.began is not None]
        exact = [one for one in records if one.name == table]
        similar = [one for one in records if [*map(str.lower, one.name)] == [*map(str.lower, table)]]
        statuses = [_load_status(one) for one in exact or similar]
        return max(statuses, key=lambda one: one.began, default=None)

    def _files(self) -> Sequence[Path]:
        if self.path.is_dir():
            return sorted(self.path.glob("*.json"))
        return [self.path]


def _load_status(table: _Table) -> LoadStatus:
    ended = None if table.ended is None or table.state != COMPLETED else _micros(table.ended)
    return LoadStatus(began=_micros(table.began or _EPOCH), ended=ended, rows=table.rows)


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _read(file: Path) -> Sequence[_Table]:
    try:
        return _Document.model_validate_json(file.read_bytes()).tables
    except (OSError, ValidationError) as error:
        why = str(error) if isinstance(error, OSError) else error.errors()[0]["msg"]
        raise ConfigError(
            f"the statistics of the task cannot be read: {file}",
            found=why,
            todo="Write them with `aws dms describe-table-statistics --replication-task-arn … > FILE`, or take "
            "[statistics] out of the settings. Nothing of this batch was applied; other tables go on.",
        ) from error
