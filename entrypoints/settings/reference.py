"""Writer of the page `docs/reference/settings.md`, from the models that validate settings.

`make docs` writes it; a test fails where the page is not what this gives.
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
    ColumnSettings,
    MetricsSettings,
    PathSettings,
    PipelineSettings,
    QuarantineSettings,
    QueueSettings,
    RegistrationSettings,
    SchemaSettings,
    SparkSettings,
    StoresSettings,
    TableCatalogueSettings,
    TableSettings,
)

_HEAD: Final = """\
# Settings

One TOML file, `lakeward.toml` by default; `--config FILE` or `LAKEWARD_CONFIG` names another.
It is read and checked whole before anything starts: a key that nobody knows is an error that names the nearest
one, and so is a value of another type. Paths are relative to the file. Teams may keep settings
[in other places](../how-to/aws/settings.md), too; `lakeward settings show` says where each value is from.

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

[defaults]                           # for every table that does not say otherwise
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

_KIND: Final = "Which {shelf} it is; the keys below are those of `{kind}`. `lakeward plugins` lists what there is."

_QUEUE: Final = """\
What says which tables to look at ([queues](queues.md)). The table may be left out: then it is `kind = "poll"`.
What a kind of queue adds stands beside these keys.
"""

_FILES: Final = """\
With `kind = "files"` these are the keys of `[source]`: CSV, JSON lines, Parquet, or messages as JSON lines, that
something else than DMS wrote. [Plain files](plain-files.md) has examples.
"""

_KAFKA: Final = """\
With `kind = "kafka"` these are the keys of `[source]`: messages from topics of a broker. They take
`pip install 'lakeward[kafka]'`. [Kafka](kafka.md) has examples.
"""

_JDBC: Final = """\
With `kind = "jdbc"` these are the keys of `[source]`: tables of a live database. [Databases](jdbc.md) has examples.
A driver has `coordinates` and `sha256`.
"""

_OWN_OF_FILES: Final = """\
Of the source `files` these are all keys of [its own](#source-files) but `path`, `landing`, `archive`, `max_files`
and `max_bytes`; `folder` is where the files of this table lie. Of the source `kafka` they are `topics`, `format`,
`record_key`, `order_by`, `time` and [the keys of messages](#source-kafka) from `source_zone` to
`before_image_prefix`, and of the source `jdbc` `cursor`, `overlap`, `source_zone`, `every`, `partitions` and
`without`, of [its own](#source-jdbc); with `then = "kafka"` they are the last two, and those of the source `kafka`.
"""

_LEDGER: Final = """\
What remembers each file ([the ledger](ledger.md)). The table may be left out: then it is `kind = "sqlite"`, a file
`ledger.db` in the folder `state`, which has no further keys. Where that folder goes with the machine,
[`kind = "dynamodb"`](ledger.md#on-dynamodb) keeps it.
"""

_LEASE: Final = """\
What keeps a pipeline that more than one machine may run to one process at a time ([a lease](lease.md)). The table
may be left out: then the lock in the folder `state` does, for processes that share it.
"""

_STATISTICS: Final = """\
What the task that writes the files says of its full loads: one that a table waits for is complete once it says
so ([a reload](../how-to/reload.md#what-the-task-tells)). The table may be left out.
"""

_NOTIFY: Final = """\
Who is told what a run has found ([notices](notices.md)), each a table with its `kind` and the keys of that kind.
With one alone `[notify]` does. `kind = "log"` writes a line of the log, and has no further keys.
"""

_DEFAULTS: Final = """\
Keys of `[tables]` for every table; what a table says itself counts more. A key is taken whole: `columns` or
`properties` of a table are not mixed with those given here.
"""

_TABLES: Final = """\
A table is named as the source names it, `schema.table`. A part that has a dot stands in double quotes, so the TOML
needs single ones: `[tables.'sales."odd.name"']`. Any character is taken in names except control characters, path
separators and `..`; columns may not begin with `_lakeward_`, and a table may not be called as another one with
`__changes` or `__quarantine` behind it. Names of tables are kept as they are written, and compared without
case; names of columns are taken as they are written here, and found in files in any case, but for
lines of JSON, where letters count.

A `*` in a name stands for many tables: `[tables."sales.*"]` takes every table of the schema that the source has,
those that come later too ([many tables](dms-layouts.md#many-tables)).
"""

_OF_FORMAT: Final = """\
Beside them stand the keys of the table format, which say how a table is made, by its first commit.
Of a table that is there [`lakeward maintain`](../how-to/maintain.md#how-a-table-is-made) changes it, on Iceberg and
Delta; until then a key that is changed changes nothing, but that the `write_mode` of `iceberg` counts at each
commit. On Hudi `properties` count at each write, and a change of any other key stops the table until it is put
back. Those of `iceberg`:
"""

_ICEBERG: Final = """\
[Iceberg](iceberg.md) tables need nothing more with `sqlite` and `rest`; `glue` needs `pip install 'lakeward[s3]'`,
and `hive` `'lakeward[hive]'`.
"""

_DELTA: Final = """\
[Delta Lake](delta.md) tables need `pip install 'lakeward[delta]'`.
"""

_HUDI: Final = """\
[Apache Hudi](hudi.md) tables need Spark 3.5: `pip install 'lakeward[spark-3.5,hudi]'` in an environment of its own.
"""

_RULES: Final = """\
Column rules, in order, each a table with the key `rule` and those of that rule;
[column rules](column-rules.md) has examples.
"""

_QUALITY: Final = """\
Quality rules, each a table with the key `rule` and those of that rule;
[quality rules](quality-rules.md) has examples.
"""

_JOINED: Final = """\
A table that is made of mirrors or histories under `[tables]` ([joined tables](../explanation/joined.md)), by its
name in the lake. Beside these keys stand those of the table format, as of any other table.
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
| `LAKEWARD_CONFIG` | The settings, or their [address](../how-to/aws/settings.md#addresses), without `--config`. |
| `LAKEWARD_CACHE` | The folder for jars and Java's classes, in place of the user's cache. |
| `LAKEWARD_MAVEN` | The Maven repository that jars are fetched from, in place of Maven Central. |
| `JAVA_HOME` | The Java that Spark runs on (17 or 21); else the `java` on the path. |
| `NO_COLOR` | Set to anything: no colours. |
"""


def page() -> str:
    """Return the page."""
    return "\n".join(_fitted(line) for line in "\n".join(_parts()).split("\n"))


def _fitted(line: str) -> str:
    """Wrap a line of prose above 120 characters; links to other pages make some lines that long."""
    if line.startswith("|") or len(line) <= 120:
        return line
    return fill(line, 120, break_long_words=False, break_on_hyphens=False)


def _parts() -> Iterator[str]:
    yield _HEAD
    yield from _section("[pipeline]", PipelineSettings)
    yield from _stores()
    yield from _section("[source]", DmsOptions, {"kind": _KIND.format(shelf="source", kind="dms")})
    yield "## Source `files`\n"
    yield _FILES
    yield from _table(FilesOptions)
    yield "`operation`: a column that says what a row does.\n"
    yield from _table(Operations)
    yield "## Source `kafka`\n"
    yield _KAFKA
    yield from _table(KafkaOptions)
    yield from _section("[source.security]", SecurityOptions)
    yield from _section("[source.registry]", RegistryOptions)
    yield "## Source `jdbc`\n"
    yield _JDBC
    yield from _table(JdbcSourceOptions)
    yield from _section("[target]", IcebergOptions, {"kind": _KIND.format(shelf="table format", kind="iceberg")})
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
    yield '`kind = "jdbc"`: ' + f"{JdbcOptions.__doc__} A driver has `coordinates` and `sha256`.\n"
    yield from _table(JdbcOptions)
    yield from _section("[metrics]", MetricsSettings)
    yield from _section("[spark]", SparkSettings)
    yield from ("## `[defaults]`\n", _DEFAULTS)
    yield from _of_tables()
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


def _of_tables() -> Iterator[str]:
    """Yield the sections about the keys of a table."""
    yield from ('## `[tables."schema.table"]`\n', _TABLES)
    yield from _table(TableSettings)
    yield _OF_FORMAT
    yield from _table(TableOptions)
    yield "Those of `delta`:\n"
    yield from _table(DeltaTableOptions)
    yield "Those of `hudi`, of which only `properties` may change later:\n"
    yield from _table(HudiTableOptions)
    yield from _section('[tables."schema.table".columns]', ColumnSettings)
    yield from _section('[tables."schema.table".history]', HistorySettings)
    yield from _section('[tables."schema.table".source]', DmsTableOptions)
    yield _OWN_OF_FILES
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


def _rules(name: str, words: str, union: Any) -> Iterator[str]:
    """Yield a section with the keys of each rule, except the key that names the rule."""
    yield f"## `{name}`\n"
    yield words
    for model in get_args(get_args(union)[0]):
        (word,) = get_args(model.model_fields["rule"].annotation)
        yield f'`rule = "{word}"`: {model.__doc__}\n'
        yield from _table(model, leave={"rule"})


def _section(name: str, model: type[BaseModel], also: Mapping[str, str] | None = None) -> Iterator[str]:
    yield f"## `{name}`\n"
    yield f"{_cell(cleandoc(model.__doc__ or ''))}\n"
    yield from _table(model, also)


def _table(
    model: type[BaseModel], also: Mapping[str, str] | None = None, leave: Collection[str] = ()
) -> Iterator[str]:
    if not model.model_fields.keys() - leave:
        return
    yield "| key | type | default | meaning |\n|---|---|---|---|"
    for key, meaning in (also or {}).items():
        yield f"| `{key}` | text | required | {meaning} |"
    for key, field in model.model_fields.items():
        if key in leave:
            continue
        cells = (f"`{field.alias or key}`", _type(field), _default(field), field.description or "")
        yield "| " + " | ".join(_cell(cell) for cell in cells) + " |"
    yield ""


def _cell(words: str) -> str:
    """Return a text as a cell of a Markdown table, with links to the pages that it names."""
    return re.sub(r"docs/[\w/-]+\.md", _link, words.replace("|", r"\|"))


def _link(page: re.Match[str]) -> str:
    return f"[{page[0]}]({relpath(page[0], 'docs/reference')})"


def _type(field: FieldInfo) -> str:
    """Return a description of the type of a key."""
    words = _words(field.annotation)
    is_positive = any(getattr(bound, "gt", None) == 0 for bound in field.metadata)
    return f"{words} above 0" if is_positive else words


def _words(annotation: Any) -> str:
    arguments = get_args(annotation)
    if get_origin(annotation) in (UnionType, Union) and NoneType in arguments:
        (annotation,) = [item for item in arguments if item is not NoneType]
        return _words(annotation)
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{json.dumps(item)}`" for item in arguments)
    if get_origin(annotation) is Annotated:
        return _words(arguments[0])
    if get_origin(annotation) in (UnionType, Union):
        return " or ".join(dict.fromkeys("table" if _is_table(form) else _words(form) for form in arguments))
    if get_origin(annotation) is list:
        return f"list of {_several(arguments[0])}"
    if get_origin(annotation) is dict and arguments[1] is Any:
        return "table"
    if get_origin(annotation) is dict:
        return f"table of {_several(arguments[1])}"
    return _PLAIN[annotation]


def _is_table(form: Any) -> bool:
    return get_origin(form) is dict or (isinstance(form, type) and issubclass(form, BaseModel))


def _several(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return _words(annotation)
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) is dict and get_args(annotation)[1] is not Any:
        return f"tables of {_several(get_args(annotation)[1])}"
    named = dict.fromkeys((PathSettings, JoinedSourceSettings, TableAccess), "tables") | {ColumnSettings: "columns"}
    return {**named, AggregateSettings: "aggregates"}.get(annotation) or f"{_words(annotation)}s"


_PLAIN: Final[Mapping[Any, str]] = {
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
