"""The parts of a pipeline that a template needs to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from lakeward.adapters.aws.s3.access import bucket_and_key, normal_url
from lakeward.adapters.sources.dms.options import DmsOptions
from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.core.dimension import TableName
from lakeward.core.settings.secrets import SecretName
from lakeward.entrypoints.settings.patterns import is_pattern, table_name

Dms: TypeAlias = Literal["make", "existing", "none"]
"""Whether a template creates the replication task, uses an existing one, or has none."""


@dataclass(frozen=True, slots=True)
class Place:
    """A prefix of a bucket; an empty prefix is the whole bucket."""

    bucket: str
    prefix: str

    @classmethod
    def of(cls, url: str) -> Place:
        """Return the place of a URL.

        >>> Place.of("s3://shop-lake/tables/")
        Place(bucket='shop-lake', prefix='tables')
        """
        return cls(*bucket_and_key(normal_url(url)))

    @property
    def below(self) -> str:
        """The prefix of all keys."""
        return f"{self.prefix}/" if self.prefix else ""

    def holds(self, other: Place) -> bool:
        """Return True if another place is this one, or is within it.

        >>> Place("shop", "").holds(Place("shop", "lake")), Place("shop", "a").holds(Place("shop", "ab"))
        (True, False)
        """
        return self.bucket == other.bucket and other.below.startswith(self.below)

    def __str__(self) -> str:
        """Return its URL."""
        return f"s3://{self.bucket}/{self.below}"


@dataclass(frozen=True, slots=True)
class DeployedQueue:
    """The queue of the settings, by its name in the account; messages are hidden for `visibility` seconds."""

    name: str
    visibility: int

    @property
    def is_fifo(self) -> bool:
        """True if the queue is FIFO, which is part of its name."""
        return self.name.endswith(".fifo")

    @property
    def dead_letters(self) -> str:
        """The name of the dead-letter queue, which is of the same type."""
        return f"{self.name.removesuffix('.fifo')}-dead" + (".fifo" if self.is_fifo else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class GlueDatabases:
    """Databases of a Glue catalog, by name or by a pattern of IAM.

    Without a `region` or an `account` the catalog is that of the stack.
    """

    names: Sequence[str]
    region: str | None = None
    account: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedRegistration:
    """The registration of tables and source files in Glue and Lake Formation.

    `tables` are the databases of tables without a catalog of their own, `files` those of the source's files.
    `sets_tags` is True if the pipeline sets tags in Lake Formation, `grants` if it grants access.
    """

    tables: GlueDatabases
    files: GlueDatabases
    sets_tags: bool
    grants: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedRole:
    """A role that Iceberg assumes for its requests to AWS; `has_tags` is True for session tags."""

    arn: str
    has_tags: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedPipeline:
    """The properties of a pipeline that its template depends on.

    `databases` are those of Iceberg tables in a Glue catalog; None with another catalog or format. `assumed` is
    the role that Iceberg assumes, if any. `staging` is the place of files for Spark's workers; None is the
    warehouse. `topics` are SNS topics for the results of runs. `metrics` is the namespace of metrics; `unmeasured`
    is True if runs write none. `tables` are the source tables in the order of the settings, and `folders` the
    folders of their files below the landing place. Tables in `apart` have DMS options of their own. `patterns`
    match more tables, and `skipped` tables are not read. `matches_images` is True if a table uses image match.
    `settings` is the kind and name of the settings store; None for a file.
    """

    name: str
    source_kind: str
    source: DmsOptions | FilesOptions
    landing: Place
    archive: Place | None
    warehouse: Place
    format: str
    databases: GlueDatabases | None
    assumed: AssumedRole | None
    registration: DeployedRegistration | None
    staging: Place | None
    topics: Sequence[str]
    metrics: str
    unmeasured: bool
    queue: DeployedQueue
    ledger: str
    lease: str
    stores: Sequence[Mapping[str, Any]]
    secrets: Sequence[SecretName]
    tables: Sequence[TableName]
    folders: Mapping[TableName, Sequence[str]]
    apart: Sequence[TableName]
    patterns: Sequence[str]
    skipped: Sequence[TableName]
    matches_images: bool
    settings: Mapping[str, str] | None


def tables_of_patterns(patterns: Sequence[str]) -> Sequence[TableName]:
    """Return each pattern as the name of a table, whose schema and table may contain `*`.

    >>> tables_of_patterns(["shop.*"])
    [TableName(schema='shop', table='*')]
    """
    return [table_name(pattern) for pattern in patterns if is_pattern(pattern)]
