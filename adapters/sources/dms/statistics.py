"""The statistics of a replication task, as the command line of AWS writes them into a file.

`aws dms describe-table-statistics --replication-task-arn … > statistics.json` tells of each
table when its full load began and ended, and how many rows it wrote
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
"""The state of a table whose full load has ended well; it stays so while changes are captured."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class StatisticsOptions(BaseModel):
    """What `aws dms describe-table-statistics` wrote, of one task or of several."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    path: str = Field(
        description="The JSON file, or a folder of such files; a relative path is relative to the settings file."
    )


class _Table(BaseModel):
    """One table of a task; the names are those of AWS, and there are more of them."""

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
    """A file, or a folder of files; they are read anew each time."""

    path: Path

    def full_load(self, table: TableName) -> LoadStatus | None:
        """Return what the files say of a table: of two tasks, what that says which loaded it last."""
        found = [one for file in self._files() for one in _read(file) if one.began is not None]
        exact = [one for one in found if one.name == table]
        alike = [one for one in found if [*map(str.lower, one.name)] == [*map(str.lower, table)]]
        told = [_told(one) for one in exact or alike]
        return max(told, key=lambda one: one.began, default=None)

    def _files(self) -> Sequence[Path]:
        if self.path.is_dir():
            return sorted(self.path.glob("*.json"))
        return [self.path]


def _told(table: _Table) -> LoadStatus:
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
