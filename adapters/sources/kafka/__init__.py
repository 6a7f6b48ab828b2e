"""The source `kafka`: messages from the topics of a broker."""

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
    """Return the source for the table [source] and the `source` options of its tables."""
    return make_source(options, runtime)


def make_source(
    options: Options, runtime: Runtime, section: str = "source", *, follows_snapshot: bool = False
) -> KafkaSource:
    """Return the source for the settings in a `section`.

    `follows_snapshot` says that a snapshot of the database comes first, whose commit has the offsets to begin at.
    Raises SetupError for a missing library and ConfigError for settings that do not fit.
    """
    check_spark()
    from lakeward.adapters.sources.files.source import FilesSource  # noqa: PLC0415  # Spark is imported when it is needed
    from lakeward.adapters.sources.kafka.landing import Landing  # noqa: PLC0415
    from lakeward.adapters.sources.kafka.source import KafkaSource  # noqa: PLC0415  # Spark is imported when it is needed
    from lakeward.adapters.sources.kafka.staging.landing_process import LandingProcess  # noqa: PLC0415
    from lakeward.adapters.sources.kafka.staging.message_files import MessageStaging  # noqa: PLC0415
    from lakeward.adapters.sources.kafka.staging.staged_messages import StagedMessages  # noqa: PLC0415

    settings, files, tables, root = _open_settings(options, runtime, section)
    folder = _staging_folder(root)
    staged_copies = _open_copies(settings, folder, runtime)
    form = _make_landing_form(settings, options, runtime, section)
    source = FilesSource(
        *(files, folder, runtime.spark, options["formats"], tables),
        now=runtime.now,
        small_batch=runtime.small_batch,
        may_be_unreadable=True,
        are_one=settings.transactions is not None,
        copies=staged_copies,
        message_form=StagedMessages(form.avro),
    )
    landing = Landing(
        *(settings, connect(settings, runtime), MessageStaging(root), source, form),
        follows_snapshot=follows_snapshot,
        runs_once=runtime.runs_once,
        land_in_process=LandingProcess(settings, runtime.base, root, runtime.secret).land,
    )
    kafka_source = KafkaSource(landing, source)
    source.next_objects = kafka_source.next_objects
    return kafka_source


def _open_copies(settings: Any, folder: Any, runtime: Runtime) -> Any:
    """Return the copies of staged files in a bucket, or None where Spark's workers see the staging folder."""
    from lakeward.adapters.sources.staging.prefix_factory import open_staging  # noqa: PLC0415

    prefix = open_staging(settings.staging, runtime, "kafka")
    if prefix is None:
        return None
    from lakeward.adapters.sources.staging.copies import StagedCopies  # noqa: PLC0415  # boto3 is imported when it is needed

    return StagedCopies(folder, prefix)


def _make_landing_form(settings: Any, options: Options, runtime: Runtime, section: str) -> Any:
    """Return the form in which messages land.

    Raises ConfigError for Avro without a registry, and for a registry without Avro.
    """
    from lakeward.adapters.sources.kafka.options import AVRO  # noqa: PLC0415
    from lakeward.adapters.sources.kafka.staging.line_form import LandingForm, TableFormat  # noqa: PLC0415

    source_format = TableFormat(settings.format, settings.record_key)
    table_formats = {
        table: TableFormat(table_options.format, table_options.record_key)
        for table, table_options in _read_table_options(settings, options, runtime).items()
    }
    of_tables = (str(table) for table, table_format in table_formats.items() if table_format.format == AVRO)
    avro_places = [*([f"[{section}]"] if settings.format == AVRO else []), *of_tables]
    if bool(avro_places) == (settings.registry is None):
        raise _registry_error(avro_places, section)
    return LandingForm(source_format, table_formats, _open_avro(settings, runtime) if avro_places else None)


def _registry_error(avro_places: Sequence[str], section: str) -> ConfigError:
    if avro_places:
        return ConfigError(
            f'{avro_places[0]}: `format = "debezium-avro"` needs a registry, which has the schemas',
            todo=f'Name it: [{section}.registry] with `url = "http://registry:8081"`, or with `kind = "glue"`.',
        )
    return ConfigError(
        f"[{section}.registry] is set, but no messages are in Avro",
        todo=f'Set `format = "debezium-avro"` under [{section}], or for single tables; or take the registry out.',
    )


def _open_avro(settings: Any, runtime: Runtime) -> Any:
    """Return the decoder of Avro messages; raises SetupError without the library."""
    if find_spec("fastavro") is None:
        raise SetupError("fastavro is not installed, which reads Avro", todo="pip install 'lakeward[kafka]'")
    from lakeward.adapters.sources.kafka.registries.avro import AvroMessages  # noqa: PLC0415
    from lakeward.adapters.sources.kafka.registries.schemas import SchemaStore  # noqa: PLC0415

    registry = _open_glue(settings) if settings.registry.kind == "glue" else _open_confluent(settings, runtime)
    return AvroMessages(SchemaStore(runtime.state / "schemas", registry))


def _open_confluent(settings: Any, runtime: Runtime) -> Any:
    from lakeward.adapters.sources.kafka.registries.confluent import ConfluentRegistry  # noqa: PLC0415

    registry = settings.registry
    return ConfluentRegistry(registry.url, registry, runtime.base, runtime.secret, settings.timeout)


def _open_glue(settings: Any) -> Any:
    """Return the registry of AWS; raises SetupError without its client."""
    if find_spec("boto3") is None:
        raise SetupError("boto3 is not installed, which reaches AWS", todo="pip install 'lakeward[glue]'")
    from lakeward.adapters.sources.kafka.registries.glue import GlueRegistry  # noqa: PLC0415

    return GlueRegistry(settings.timeout)


def build_inventory(options: Options, runtime: Runtime) -> SourceInventory:
    """Return the inventory of the broker's topics; it needs no Spark."""
    inventory: SourceInventory = open_topics(options, runtime)[0]
    return inventory


def build_backlog(options: Options, runtime: Runtime) -> Backlog:
    """Return the backlog of the broker's topics; it needs no Spark."""
    from lakeward.adapters.sources.kafka.backlog import KafkaBacklog  # noqa: PLC0415

    inventory, start, staging, transactions = open_topics(options, runtime)
    return KafkaBacklog(inventory, start, staging=staging, transactions=transactions)


def open_topics(
    options: Options, runtime: Runtime, section: str = "source"
) -> tuple[Any, str | None, Any, str | None]:
    """Return the inventory of topics, the setting `start`, the staging folder, and the topic of transactions."""
    from lakeward.adapters.sources.kafka.inventory import KafkaSourceInventory  # noqa: PLC0415
    from lakeward.adapters.sources.kafka.staging.message_files import MessageStaging  # noqa: PLC0415

    settings, files, tables, root = _open_settings(options, runtime, section)
    inventory = KafkaSourceInventory(files, connect(settings, runtime), tables)
    return inventory, settings.start, MessageStaging(root), settings.transactions


def connect(settings: Any, runtime: Runtime) -> Any:
    """Return the broker that the settings name, without connecting to it.

    Raises SetupError without the client library.
    """
    try:
        from lakeward.adapters.sources.kafka.client import KafkaBroker  # noqa: PLC0415
        from lakeward.adapters.sources.kafka.topics import SeveralTopics  # noqa: PLC0415
    except ImportError as error:
        raise SetupError(
            "the Kafka client is not installed",
            found=str(error),
            todo="Install it: pip install 'lakeward[kafka]'.",
        ) from error
    return SeveralTopics(KafkaBroker(settings, runtime.base, runtime.secret))


def _open_settings(
    options: Options, runtime: Runtime, section: str
) -> tuple[Any, Any, Mapping[TableName, Any], Path]:
    """Return the validated options, the options of staged files for the source and by table, and their folder."""
    from lakeward.adapters.sources.files import own_options  # noqa: PLC0415  # pydantic is imported when it is needed
    from lakeward.adapters.sources.files.options import FilesOptions  # noqa: PLC0415
    from lakeward.adapters.sources.kafka import options as model  # noqa: PLC0415

    settings_file = str(runtime.file)
    source_options = {name: value for name, value in options.items() if name not in ("formats", "tables")}
    settings = validated(model.KafkaOptions, source_options, settings_file, within=section)
    staging_root = runtime.state / "kafka" if settings.path is None else _resolve_folder(settings.path, runtime)
    files = validated(FilesOptions, settings.to_files_options(str(staging_root)), settings_file, within=section)
    tables = {
        table: own_options(files, table, model.to_table_options(table_options), runtime)
        for table, table_options in _read_table_options(settings, options, runtime).items()
    }
    return settings, files, tables, staging_root


def _read_table_options(settings: Any, options: Options, runtime: Runtime) -> Mapping[TableName, Any]:
    """Return the options of each table; formats and record keys default to those of the source.

    Raises ConfigError for a table that cannot have whole transactions, and for plain records without a topic of
    their own.
    """
    from lakeward.adapters.sources.kafka.options import (  # noqa: PLC0415
        ROWS,
        KafkaTableOptions,
        refuse_without_transactions,
    )

    table_options = {}
    for table, values in options.get("tables", {}).items():
        has_source_format = values.get("format", settings.format) == settings.format == ROWS
        defaults = {"format": settings.format, **({"record_key": settings.record_key} if has_source_format else {})}
        within = f'tables."{table}".source'
        table_options[table] = validated(
            KafkaTableOptions, {**defaults, **values}, str(runtime.file), within=within
        )
        if settings.transactions is not None:
            try:
                refuse_without_transactions(table_options[table])
            except ValueError as error:
                todo = "Take `transactions` out, or give the table a pipeline of its own."
                raise ConfigError(f"{table}: {error}", todo=todo) from None
        if (
            table_options[table].format == ROWS
            and table_options[table].topics is None
            and "{schema}" not in settings.topics
        ):
            raise ConfigError(
                f"{table}: plain records do not name their table, and all tables share one topic",
                found=f"`topics` under [source] is {settings.topics}",
                todo=f"Name the topic of the table: `topics` under [{within}].",
            )
    return table_options


def _resolve_folder(path: str, runtime: Runtime) -> Path:
    if "://" in path:
        raise ConfigError(
            f"messages cannot be staged in {path}",
            todo="Let `path` under [source] be a folder on a disk; `staging` names a prefix of a bucket.",
        )
    return runtime.base / path


def _staging_folder(root: Path) -> Any:
    """Return the staging folder in the form that the source of files reads: a folder for each table."""
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
