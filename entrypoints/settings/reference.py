"""Generator of the page `docs/reference/settings.md`, from the models that validate settings.

`make docs` writes the page; a test fails if it is out of date.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from inspect import cleandoc
from posixpath import relpath
from textwrap import fill
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ByteSize
from pydantic.fields import FieldInfo

from lakeward.adapters.catalogues.connection import DriverOptions
from lakeward.adapters.catalogues.files import FileOptions
from lakeward.adapters.catalogues.jdbc import JdbcOptions
from lakeward.adapters.formats.delta.options import DeltaOptions
from lakeward.adapters.formats.delta.options import TableOptions as DeltaTableOptions
from lakeward.adapters.formats.hudi.options import HudiOptions
from lakeward.adapters.formats.hudi.options import TableOptions as HudiTableOptions
from lakeward.adapters.formats.iceberg.options import IcebergOptions, TableOptions
from lakeward.adapters.leases.dynamodb import LeaseOptions
from lakeward.adapters.ledgers.dynamodb import LedgerOptions
from lakeward.adapters.notifiers import SnsOptions, WebhookOptions
from lakeward.adapters.queues.sqlite import SqliteQueueOptions
from lakeward.adapters.queues.sqs import SqsOptions
from lakeward.adapters.registrations.glue import GlueOptions
from lakeward.adapters.registrations.glue.lake_formation import (
    AccessOptions,
    DatabaseGrant,
    TableAccess,
    TableGrant,
)
from lakeward.adapters.settings_stores.dynamodb import DynamoDbStoreOptions
from lakeward.adapters.settings_stores.file import FileStoreOptions
from lakeward.adapters.settings_stores.s3 import S3StoreOptions
from lakeward.adapters.settings_stores.secrets_manager import SecretsManagerStoreOptions
from lakeward.adapters.settings_stores.ssm import SsmStoreOptions
from lakeward.adapters.sources.dms.options import DmsOptions, DmsTableOptions
from lakeward.adapters.sources.dms.statistics import StatisticsOptions
from lakeward.adapters.sources.files.form import Operations
from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.jdbc.options import JdbcSourceOptions
from lakeward.adapters.sources.kafka.access import RegistryOptions, SecurityOptions
from lakeward.adapters.sources.kafka.options import KafkaOptions
from lakeward.core.settings.secrets import SecretName
from lakeward.entrypoints.settings.models.column_rules import ColumnRule
from lakeward.entrypoints.settings.models.history import HistorySettings
from lakeward.entrypoints.settings.models.joined_tables import (
    AggregateSettings,
    JoinedSettings,
    JoinedSourceSettings,
)
from lakeward.entrypoints.settings.models.maintenance import MaintainSettings
from lakeward.entrypoints.settings.models.quality_rules import QualityRule
from lakeward.entrypoints.settings.models.sections import (
    CatalogueSettings,
    MetricsSettings,
    PipelineSettings,
    QueueSettings,
    RegistrationSettings,
    SparkSettings,
    StoresSettings,
)
from lakeward.entrypoints.settings.models.tables import (
    ColumnSettings,
    PathSettings,
    QuarantineSettings,
    SchemaSettings,
    TableCatalogueSettings,
    TableSettings,
)

_HEAD: Final = """\
# Settings

One TOML file, `lakeward.toml` by default; `--config FILE` or `LAKEWARD_CONFIG` names another.
The whole file is read and checked before anything starts: an unknown key is an error that names the nearest known
one, and a value of the wrong type is an error. Paths are relative to the file. Settings may also be kept
[in other places](../how-to/aws/settings.md); `lakeward settings show` says where each value is from.

Durations are a whole number and a unit: `30s`, `15m`, `24h` or `7d`. Sizes are bytes, or a number and a unit:
`128MiB`.

<!-- Written by `make docs` from the models in the code. Changes made here are lost. -->

```toml
[pipeline]
name = "shop"

[source]
kind = "dms"
path = "landing/"
timestamp_column = "committed_at"    # the endpoint's TimestampColumnName
source_zone = "UTC"

[target]
kind = "iceberg"
warehouse = "lake/"

[spark]
memory = "4g"

[defaults]                           # for every table without a setting of its own
write_mode = "copy-on-write"

[tables."shop.orders"]
key = ["id"]
partition_by = ["month(ordered_at)"]

[tables."shop.orders".columns]       # in the order of the files
id = "bigint"
total = "decimal(12,2)"
ordered_at = "timestamp"
shipped = { type = "date", format = "d-MMM-yy" }
```
"""

_KIND: Final = "The kind of {port}. The keys below are those of `{kind}`. `lakeward plugins` lists all kinds."

_QUEUE: Final = """\
The queue that says which tables to examine ([queues](queues.md)). Without this section it is `kind = "poll"`. Each
kind of queue adds keys of its own.
"""

_FILES: Final = """\
The keys of `[source]` with `kind = "files"`: CSV, JSON lines, Parquet, or messages as JSON lines, written by
anything other than DMS. [Plain files](plain-files.md) has examples.
"""

_KAFKA: Final = """\
The keys of `[source]` with `kind = "kafka"`: messages from topics of a broker. It needs
`pip install 'lakeward[kafka]'`. [Kafka](kafka.md) has examples.
"""

_JDBC: Final = """\
The keys of `[source]` with `kind = "jdbc"`: tables of a live database. [Databases](jdbc.md) has examples.
A driver is a table with `coordinates` and `sha256`.
"""

_TABLE_SOURCE: Final = """\
The keys above are those of the source `dms`. Other sources accept some of the keys of `[source]` here:

- `files`: all of [its keys](#source-files) except `path`, `landing`, `archive`, `max_files` and `max_bytes`;
  `folder` is the folder of this table.
- `kafka`: `topics`, `format`, `record_key`, `order_by`, `time` and [the keys of messages](#source-kafka) from
  `source_zone` to `before_image_prefix`.
- `jdbc`: `cursor`, `overlap`, `source_zone`, `every`, `partitions` and `without` of [its keys](#source-jdbc); with
  `then = "kafka"`, `partitions`, `without` and those of `kafka`.
"""

_LEDGER: Final = """\
The record of every file ([the ledger](ledger.md)). Without this section it is `kind = "sqlite"`, the file
`ledger.db` in the folder `state`, without further keys. If that folder is lost with the machine, use
[`kind = "dynamodb"`](ledger.md#on-dynamodb).
"""

_LEASE: Final = """\
The [lease](lease.md) that lets one process at a time run the pipeline, if more than one machine may start it.
Without this section only the lock in the folder `state` does, for processes that share that folder.
"""

_STATISTICS: Final = """\
What the replication task reports about its full loads. A full load that a table waits for is complete when the task
says so ([a reload](../how-to/reload.md#what-the-task-tells)). The section is optional.
"""

_NOTIFY: Final = """\
The receivers of [notices](notices.md) about runs, each a table with its `kind` and the keys of that kind. A
single one may be written as `[notify]`. `kind = "log"` writes to the log, and has no further keys.
"""

_DEFAULTS: Final = """\
Keys of `[tables]` for every table. A key of a table overrides the same key here. Values are not merged:
`columns` or `properties` of a table replace those given here.
"""

_TABLES: Final = """\
The name of a table is that of the source, `schema.table`. A part with a dot is put in double quotes, and the
TOML key then in single quotes: `[tables.'sales."odd.name"']`. Names may have any character except control
characters, path separators and `..`. Names of columns may not begin with `_lakeward_`. The name of a table may not
be that of another one followed by `__changes` or `__quarantine`. Names of tables keep their case and are compared
without it. Names of columns keep the case that is written here; files may write them in any case, except JSON
lines, where case counts.

A `*` in a name matches many tables: `[tables."sales.*"]` is for every table of the schema that the source has, now
or later ([many tables](dms-layouts.md#many-tables)).
"""

_FORMAT_KEYS: Final = """\
Each table format adds keys that say how its first commit creates the table. For an existing Iceberg or Delta
table, [`lakeward maintain`](../how-to/maintain.md#how-a-table-is-made) applies changes of these keys; until then a
change has no effect, except that `write_mode` of Iceberg takes effect with the next commit. On Hudi, `properties`
take effect with the next write, and a change of any other key stops the table until it is undone.

The keys of `iceberg`:
"""

_ICEBERG: Final = """\
[Iceberg](iceberg.md) tables with the catalog `sqlite` or `rest` need no further package. `glue` needs
`pip install 'lakeward[s3]'`, and `hive` needs `pip install 'lakeward[hive]'`.
"""

_DELTA: Final = """\
[Delta Lake](delta.md) tables need `pip install 'lakeward[delta]'`.
"""

_HUDI: Final = """\
[Apache Hudi](hudi.md) tables need Spark 3.5: `pip install 'lakeward[spark-3.5,hudi]'` in an environment of its own.
"""

_RULES: Final = """\
Column rules, in order. Each is a table with the key `rule` and the keys of that rule;
[column rules](column-rules.md) has examples.
"""

_QUALITY: Final = """\
Quality rules. Each is a table with the key `rule` and the keys of that rule; [quality rules](quality-rules.md) has
examples.
"""

_JOINED: Final = """\
A table that is joined from mirrors or histories under `[tables]` ([joined tables](../explanation/joined.md)).
The name is that of the table in the lake. The keys of the table format may be set as for any other table.
"""

_STORES: Final[Mapping[str, type[BaseModel]]] = {
    "file": FileStoreOptions,
    "s3": S3StoreOptions,
    "ssm": SsmStoreOptions,
    "dynamodb": DynamoDbStoreOptions,
    "secretsmanager": SecretsManagerStoreOptions,
}

_ENVIRONMENT: Final = """\
| variable | meaning |
|---|---|
| `LAKEWARD_CONFIG` | The path or [address](../how-to/aws/settings.md#addresses) of the settings. |
| `LAKEWARD_CACHE` | The folder for jars and class archives, in place of the user's cache. |
| `LAKEWARD_MAVEN` | The Maven repository from which jars are fetched, in place of Maven Central. |
| `JAVA_HOME` | The Java for Spark (17 or 21). Without it: the `java` on the path. |
| `NO_COLOR` | Any value turns colours off. |
"""


def page() -> str:
    """Return the page."""
    return "\n".join(_fitted(line) for line in "\n".join(_parts()).split("\n"))


def _fitted(line: str) -> str:
    """Wrap a line of prose above 120 characters; links to pages make some lines longer than in the code."""
    if line.startswith("|") or len(line) <= 120:
        return line
    return fill(line, 120, break_long_words=False, break_on_hyphens=False)


def _parts() -> Iterator[str]:
    yield _HEAD
    yield from _section("[pipeline]", PipelineSettings)
    yield from _stores()
    yield from _section("[source]", DmsOptions, {"kind": _KIND.format(port="source", kind="dms")})
    yield "## Source `files`\n"
    yield _FILES
    yield from _table(FilesOptions)
    yield "`operation`: the column with the operation of a row.\n"
    yield from _table(Operations)
    yield "## Source `kafka`\n"
    yield _KAFKA
    yield from _table(KafkaOptions)
    yield from _section("[source.security]", SecurityOptions)
    yield from _section("[source.registry]", RegistryOptions)
    yield "## Source `jdbc`\n"
    yield _JDBC
    yield from _table(JdbcSourceOptions)
    yield from _section("[target]", IcebergOptions, {"kind": _KIND.format(port="table format", kind="iceberg")})
    yield _ICEBERG
    yield "## Target `delta`\n"
    yield _DELTA
    yield from _table(DeltaOptions)
    yield "## Target `hudi`\n"
    yield _HUDI
    yield from _table(HudiOptions)
    yield from _services()
    yield from _section("[catalogue]", CatalogueSettings)
    yield '`kind = "file"`: ' + f"{FileOptions.__doc__}\n"
    yield from _table(FileOptions)
    yield '`kind = "jdbc"`: ' + f"{JdbcOptions.__doc__} A driver is a table with `coordinates` and `sha256`.\n"
    yield from _table(JdbcOptions)
    yield from _section("[metrics]", MetricsSettings)
    yield from _section("[spark]", SparkSettings)
    yield from ("## `[defaults]`\n", _DEFAULTS)
    yield from _tables()
    yield from ("## Environment\n", _ENVIRONMENT.rstrip("\n"))
    yield ""


def _stores() -> Iterator[str]:
    """Yield the section about settings stores."""
    yield from _section("[settings]", StoresSettings)
    for kind, model in _STORES.items():
        yield f'`kind = "{kind}"`: {_cell(cleandoc(model.__doc__ or ""))}\n'
        yield from _table(model)


def _services() -> Iterator[str]:
    """Yield the sections about optional services of a pipeline."""
    yield from ("## `[queue]`\n", _QUEUE)
    yield from _table(QueueSettings)
    for kind, queue in (("sqs", SqsOptions), ("sqlite", SqliteQueueOptions)):
        yield f'`kind = "{kind}"`: ' + f"{_cell(queue.__doc__ or '')}\n"
        yield from _table(queue)
    yield from ("## `[ledger]`\n", _LEDGER)
    yield '`kind = "dynamodb"`: ' + f"{_cell(LedgerOptions.__doc__ or '')}\n"
    yield from _table(LedgerOptions)
    yield "## `[lease]`\n"
    yield _LEASE
    yield '`kind = "dynamodb"`: ' + f"{_cell(LeaseOptions.__doc__ or '')}\n"
    yield from _table(LeaseOptions)
    yield "## `[statistics]`\n"
    yield _STATISTICS
    yield '`kind = "file"`: ' + f"{StatisticsOptions.__doc__}\n"
    yield from _table(StatisticsOptions)
    yield from _registration()
    yield from ("## `[[notify]]`\n", _NOTIFY)
    for kind, notifier in (("sns", SnsOptions), ("webhook", WebhookOptions)):
        yield f'`kind = "{kind}"`: ' + f"{_cell(notifier.__doc__ or '')}\n"
        yield from _table(notifier)


def _registration() -> Iterator[str]:
    """Yield the section about registration."""
    yield from _section("[registration]", RegistrationSettings)
    yield '`kind = "glue"`: ' + f"{_cell(GlueOptions.__doc__ or '')}\n"
    yield from _table(GlueOptions)
    yield from _section("[registration.lake_formation]", AccessOptions)
    yield from _section('[registration.lake_formation.tables."schema.table"]', TableAccess)
    yield from _section("[[registration.lake_formation.grants]]", TableGrant)


def _tables() -> Iterator[str]:
    """Yield the sections about the keys of a table."""
    yield from ('## `[tables."schema.table"]`\n', _TABLES)
    yield from _table(TableSettings)
    yield _FORMAT_KEYS
    yield from _table(TableOptions)
    yield "The keys of `delta`:\n"
    yield from _table(DeltaTableOptions)
    yield "The keys of `hudi`, of which only `properties` may change later:\n"
    yield from _table(HudiTableOptions)
    yield from _section('[tables."schema.table".columns]', ColumnSettings)
    yield from _section('[tables."schema.table".history]', HistorySettings)
    yield from _section('[tables."schema.table".source]', DmsTableOptions)
    yield _TABLE_SOURCE
    yield from _section('[tables."schema.table".catalogue]', TableCatalogueSettings)
    yield from _section('[tables."schema.table".schema]', SchemaSettings)
    yield from _section('[tables."schema.table".schema.columns."path"]', PathSettings)
    yield from _section('[tables."schema.table".quarantine]', QuarantineSettings)
    yield from _section('[tables."schema.table".maintain]', MaintainSettings)
    yield from _rules('[[tables."schema.table".rules]]', _RULES, ColumnRule)
    yield from _rules('[[tables."schema.table".quality]]', _QUALITY, QualityRule)
    yield '## `[joined."schema.table"]`\n'
    yield _JOINED
    yield from _table(JoinedSettings)
    yield from _section('[joined."schema.table".sources.name]', JoinedSourceSettings)
    yield from _section('[joined."schema.table".sources.name.aggregates.column]', AggregateSettings)


def _rules(name: str, introduction: str, union: Any) -> Iterator[str]:
    """Yield a section with the keys of each rule, except the key that names the rule."""
    yield f"## `{name}`\n"
    yield introduction
    for model in get_args(get_args(union)[0]):
        (rule,) = get_args(model.model_fields["rule"].annotation)
        yield f'`rule = "{rule}"`: {model.__doc__}\n'
        yield from _table(model, without={"rule"})


def _section(name: str, model: type[BaseModel], also: Mapping[str, str] | None = None) -> Iterator[str]:
    yield f"## `{name}`\n"
    yield f"{_cell(cleandoc(model.__doc__ or ''))}\n"
    yield from _table(model, also)


def _table(
    model: type[BaseModel], also: Mapping[str, str] | None = None, without: Collection[str] = ()
) -> Iterator[str]:
    if not model.model_fields.keys() - without:
        return
    yield "| key | type | default | meaning |\n|---|---|---|---|"
    for key, meaning in (also or {}).items():
        yield f"| `{key}` | text | required | {meaning} |"
    for key, field in model.model_fields.items():
        if key in without:
            continue
        cells = (f"`{field.alias or key}`", _type(field), _default(field), field.description or "")
        yield "| " + " | ".join(_cell(cell) for cell in cells) + " |"
    yield ""


def _cell(text: str) -> str:
    """Return a text as a cell of a Markdown table, with links to the pages that it names."""
    return re.sub(r"docs/[\w/-]+\.md", _link, text.replace("|", r"\|"))


def _link(page: re.Match[str]) -> str:
    return f"[{page[0]}]({relpath(page[0], 'docs/reference')})"


def _type(field: FieldInfo) -> str:
    """Return a description of the type of a key."""
    description = _describe(field.annotation)
    is_positive = any(getattr(bound, "gt", None) == 0 for bound in field.metadata)
    return f"{description} above 0" if is_positive else description


def _describe(annotation: Any) -> str:
    arguments = get_args(annotation)
    if get_origin(annotation) in (UnionType, Union) and NoneType in arguments:
        (annotation,) = [item for item in arguments if item is not NoneType]
        return _describe(annotation)
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{json.dumps(item)}`" for item in arguments)
    if get_origin(annotation) is Annotated:
        return _describe(arguments[0])
    if get_origin(annotation) in (UnionType, Union):
        return " or ".join(dict.fromkeys("table" if _is_table(form) else _describe(form) for form in arguments))
    if get_origin(annotation) is list:
        return f"list of {_describe_plural(arguments[0])}"
    if get_origin(annotation) is dict and arguments[1] is Any:
        return "table"
    if get_origin(annotation) is dict:
        return f"table of {_describe_plural(arguments[1])}"
    return _DESCRIPTIONS[annotation]


def _is_table(form: Any) -> bool:
    return get_origin(form) is dict or (isinstance(form, type) and issubclass(form, BaseModel))


def _describe_plural(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return _describe(annotation)
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) is dict and get_args(annotation)[1] is not Any:
        return f"tables of {_describe_plural(get_args(annotation)[1])}"
    named = dict.fromkeys((PathSettings, JoinedSourceSettings, TableAccess), "tables") | {ColumnSettings: "columns"}
    return {**named, AggregateSettings: "aggregates"}.get(annotation) or f"{_describe(annotation)}s"


_DESCRIPTIONS: Final[Mapping[Any, str]] = {
    str: "text",
    int: "whole number",
    bool: "true or false",
    float: "number",
    ByteSize: "size",
    SecretName: "secret",
    AccessOptions: "table",
    DatabaseGrant: "grant",
    TableGrant: "grant",
    RegistryOptions: "table",
    SecurityOptions: "table",
    DriverOptions: "driver",
    SchemaSettings: "table",
    HistorySettings: "table",
    TableCatalogueSettings: "table",
    Operations: "table",
    QuarantineSettings: "table",
    MaintainSettings: "table",
}


def _default(field: FieldInfo) -> str:
    """Return a default as TOML writes it."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None:
        return "none"
    if isinstance(value, BaseModel):
        return "as below"
    if isinstance(value, ByteSize):
        value = value.human_readable().replace(".0", "")
    return f"`{json.dumps(value, ensure_ascii=False)}`"


if __name__ == "__main__":
    sys.stdout.write(page())
