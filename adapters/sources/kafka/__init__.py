"""The source `kafka`: messages from topics of a broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward.adapters.spark.session.java import check_spark
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, SetupError
from lakeward.core.ports import Backlog, Source, SourceInventory
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated

if TYPE_CHECKING:
    from lakeward.adapters.sources.kafka.source import KafkaSource


def build(options: Options, runtime: Runtime) -> Source[Any]:
    """Make the source from the table [source] and what the tables say of themselves."""
    return make_source(options, runtime)


def make_source(
    options: Options, runtime: Runtime, section: str = "source", *, follows_snapshot: bool = False
) -> KafkaSource:
    """Make the source `kafka` of the settings in a `section`; it may follow a snapshot, whose commit says where."""
    check_spark()
    from lakeward.adapters.sources.files.source import FilesSource  # noqa: PLC0415  # Spark is imported when it is needed
    from lakeward.adapters.sources.kafka.source import KafkaSource  # noqa: PLC0415
    from lakeward.adapters.sources.kafka.staging.message_files import Staging  # noqa: PLC0415

    settings, files, tables, root = _opened(options, runtime, section)
    folder = _folder(root)
    copies = _copies(settings, folder, runtime)
    source = FilesSource(
        *(files, folder, runtime.spark, options["formats"], tables),
        now=runtime.now,
        small_batch=runtime.small_batch,
        may_be_unreadable=True,
        are_one=settings.transactions is not None,
        copies=copies,
    )
    form = _landing_form(settings, options, runtime, section)
    return KafkaSource(
        *(settings, connect(settings, runtime), Staging(root), source, tables, form),
        follows_snapshot=follows_snapshot,
        runs_once=runtime.runs_once,
    )


def _copies(settings: Any, folder: Any, runtime: Runtime) -> Any:
    """Return what copies the files of a batch into a bucket for Spark; None where all of it sees the folder."""
    from lakeward.adapters.sources.staging.prefix_factory import open_staging  # noqa: PLC0415

    prefix = open_staging(settings.staging, runtime, "kafka")
    if prefix is None:
        return None
    from lakeward.adapters.sources.staging.copies import StagedCopies  # noqa: PLC0415  # boto3, for who has a bucket

    return StagedCopies(folder, prefix)


def _landing_form(settings: Any, options: Options, runtime: Runtime, section: str) -> Any:
    """Return what lands; raises ConfigError for Avro without a registry, and for a registry without Avro."""
    from lakeward.adapters.sources.kafka.options import AVRO  # noqa: PLC0415
    from lakeward.adapters.sources.kafka.staging.line_form import LandingForm, TableFormat  # noqa: PLC0415

    every = TableFormat(settings.format, settings.record_key)
    own = {
        table: TableFormat(said.format, said.record_key)
        for table, said in _of_tables(settings, options, runtime).items()
    }
    of_tables = (str(table) for table, found in own.items() if found.format == AVRO)
    where = [*([f"[{section}]"] if settings.format == AVRO else []), *of_tables]
    if bool(where) == (settings.registry is None):
        raise _no_registry(where, section)
    return LandingForm(every, own, _avro(settings, runtime) if where else None)


def _no_registry(where: Sequence[str], section: str) -> ConfigError:
    if where:
        return ConfigError(
            f'{where[0]}: `format = "debezium-avro"` needs a registry, which has the schemas',
            todo=f'Name it: [{section}.registry] with `url = "http://registry:8081"`, or with `kind = "glue"`.',
        )
    return ConfigError(
        f"[{section}.registry] is there, and no messages are in Avro",
        todo=f'Set `format = "debezium-avro"` under [{section}], or for single tables; or take the registry out.',
    )


def _avro(settings: Any, runtime: Runtime) -> Any:
    """Return what decodes messages in Avro; raises SetupError without the library."""
    if find_spec("fastavro") is None:
        raise SetupError("fastavro is not installed, which reads Avro", todo="pip install 'lakeward[kafka]'")
    from lakeward.adapters.sources.kafka.registries.avro import AvroMessages  # noqa: PLC0415
    from lakeward.adapters.sources.kafka.registries.schemas import SchemaStore  # noqa: PLC0415

    registry = _glue(settings) if settings.registry.kind == "glue" else _confluent(settings, runtime)
    return AvroMessages(SchemaStore(runtime.state / "schemas", registry))


def _confluent(settings: Any, runtime: Runtime) -> Any:
    from lakeward.adapters.sources.kafka.registries.confluent import ConfluentRegistry  # noqa: PLC0415

    said = settings.registry
    return ConfluentRegistry(said.url, said, runtime.base, runtime.secret, settings.timeout)


def _glue(settings: Any) -> Any:
    """Return the registry of AWS; raises SetupError without its client."""
    if find_spec("boto3") is None:
        raise SetupError("boto3 is not installed, which reaches AWS", todo="pip install 'lakeward[glue]'")
    from lakeward.adapters.sources.kafka.registries.glue import GlueRegistry  # noqa: PLC0415

    return GlueRegistry(settings.timeout)


def build_inventory(options: Options, runtime: Runtime) -> SourceInventory:
    """Look at the topics of the broker, without Spark."""
    landing: SourceInventory = look_at_topics(options, runtime)[0]
    return landing


def build_backlog(options: Options, runtime: Runtime) -> Backlog:
    """Look at what waits in these topics."""
    from lakeward.adapters.sources.kafka.backlog import KafkaBacklog  # noqa: PLC0415

    landing, start, staging, transactions = look_at_topics(options, runtime)
    return KafkaBacklog(landing, start, staging=staging, transactions=transactions)


def look_at_topics(
    options: Options, runtime: Runtime, section: str = "source"
) -> tuple[Any, str | None, Any, str | None]:
    """Return what looks at topics, where tables begin, where messages land, and the topic of transactions."""
    from lakeward.adapters.sources.kafka.inventory import KafkaSourceInventory  # noqa: PLC0415
    from lakeward.adapters.sources.kafka.staging.message_files import Staging  # noqa: PLC0415

    settings, files, tables, root = _opened(options, runtime, section)
    landing = KafkaSourceInventory(files, connect(settings, runtime), tables)
    return landing, settings.start, Staging(root), settings.transactions


def connect(settings: Any, runtime: Runtime) -> Any:
    """Return the broker that the settings name; nothing is asked of it yet."""
    try:
        from lakeward.adapters.sources.kafka.client import KafkaBroker  # noqa: PLC0415
        from lakeward.adapters.sources.kafka.topics import SeveralTopics  # noqa: PLC0415
    except ImportError as error:
        raise SetupError(
            "the client of Kafka is not installed",
            found=str(error),
            todo="Install it: pip install 'lakeward[kafka]'.",
        ) from error
    return SeveralTopics(KafkaBroker(settings, runtime.base, runtime.secret))


def _opened(
    options: Options, runtime: Runtime, section: str
) -> tuple[Any, Any, Mapping[TableName, Any], Path]:
    """Return the validated options, those of the files that land, also of single tables, and where they land."""
    from lakeward.adapters.sources.files import own_options  # noqa: PLC0415  # pydantic, for who uses the source
    from lakeward.adapters.sources.files.options import FilesOptions  # noqa: PLC0415
    from lakeward.adapters.sources.kafka import options as model  # noqa: PLC0415

    where = str(runtime.file)
    own = {name: value for name, value in options.items() if name not in ("formats", "tables")}
    settings = validated(model.KafkaOptions, own, where, within=section)
    root = runtime.state / "kafka" if settings.path is None else _on_disk(settings.path, runtime)
    files = validated(FilesOptions, settings.to_files_options(str(root)), where, within=section)
    tables = {
        table: own_options(files, table, model.to_table_options(said), runtime)
        for table, said in _of_tables(settings, options, runtime).items()
    }
    return settings, files, tables, root


def _of_tables(settings: Any, options: Options, runtime: Runtime) -> Mapping[TableName, Any]:
    """Return what tables say of themselves; the format, and the key of its records, are those of all else."""
    from lakeward.adapters.sources.kafka.options import (  # noqa: PLC0415
        ROWS,
        KafkaTableOptions,
        refuse_without_transactions,
    )

    found = {}
    for table, values in options.get("tables", {}).items():
        same = values.get("format", settings.format) == settings.format == ROWS
        known = {"format": settings.format, **({"record_key": settings.record_key} if same else {})}
        within = f'tables."{table}".source'
        found[table] = validated(KafkaTableOptions, {**known, **values}, str(runtime.file), within=within)
        if settings.transactions is not None:
            try:
                refuse_without_transactions(found[table])
            except ValueError as error:
                todo = "Take `transactions` out, or give the table a pipeline of its own."
                raise ConfigError(f"{table}: {error}", todo=todo) from None
        if found[table].format == ROWS and found[table].topics is None and "{schema}" not in settings.topics:
            raise ConfigError(
                f"{table}: plain records do not say which table they are of, and its topic is that of all tables",
                found=f"`topics` under [source] is {settings.topics}",
                todo=f"Name the topic of the table: `topics` under [{within}].",
            )
    return found


def _on_disk(path: str, runtime: Runtime) -> Path:
    if "://" in path:
        raise ConfigError(
            f"messages cannot wait in {path}",
            todo="Let `path` under [source] be a folder on a disk; `staging` names a prefix of a bucket.",
        )
    return runtime.base / path


def _folder(root: Path) -> Any:
    """Return the staging folder as the source of files sees it: each table has a folder of its own."""
    import re  # noqa: PLC0415

    from lakeward.adapters.sources.files.paths.file_names import FileNames  # noqa: PLC0415
    from lakeward.adapters.sources.kafka.offset_ranges import NAMES  # noqa: PLC0415
    from lakeward.adapters.sources.landing.folder import Folder  # noqa: PLC0415
    from lakeward.adapters.sources.landing.places import Place, Places  # noqa: PLC0415

    return Folder(root, Places(Place(FileNames(re.compile(NAMES), is_messages=True))))


@hookimpl
def register(registry: Registry) -> None:
    """Register the source `kafka`."""
    registry.sources.add("kafka", build)
    registry.inventories.add("kafka", build_inventory)
    registry.backlogs.add("kafka", build_backlog)
