"""Reads from the settings what a template needs; refuses settings that a job on AWS cannot use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from lakeward.adapters.aws.s3.access import is_url, normal, split
from lakeward.adapters.queues.sqs import SqsOptions
from lakeward.adapters.queues.visibility import seconds_of
from lakeward.adapters.registrations.glue import GlueOptions
from lakeward.adapters.registrations.glue.lake_formation import AccessOptions
from lakeward.adapters.sources.dms.options import DmsOptions, DmsTableOptions, place
from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.settings.secrets import SecretName
from lakeward.entrypoints.settings.configuration import Configured
from lakeward.entrypoints.settings.models.sections import RegistrationSettings
from lakeward.entrypoints.settings.patterns import is_pattern, table_name
from lakeward.entrypoints.settings.secret_masking import secret_names
from lakeward.entrypoints.settings.stores import address
from lakeward.plugins.options import validated

Dms: TypeAlias = Literal["make", "existing", "none"]
"""Whether a template creates the replication task, uses an existing one, or has none."""

FORMATS: Final = ("iceberg", "delta", "hudi")
_SOURCES: Final[Mapping[str, type[DmsOptions] | type[FilesOptions]]] = {"dms": DmsOptions, "files": FilesOptions}
_QUEUE: Final = 'kind = "sqs"\nurl = "https://sqs.REGION.amazonaws.com/ACCOUNT/NAME"'
_SECRETS_OF_AWS: Final = ("aws-secrets-manager", "aws-ssm")
_SECRETS_OF_A_MACHINE: Final = ("env", "file")
_SECRETS: Final = (*_SECRETS_OF_AWS, *_SECRETS_OF_A_MACHINE)


@dataclass(frozen=True, slots=True)
class Place:
    """A prefix of a bucket; an empty one is the whole bucket."""

    bucket: str
    prefix: str

    @classmethod
    def of(cls, url: str) -> Place:
        """Return the place of a URL.

        >>> Place.of("s3://shop-lake/tables/")
        Place(bucket='shop-lake', prefix='tables')
        """
        return cls(*split(normal(url)))

    @property
    def below(self) -> str:
        """The prefix of all keys."""
        return f"{self.prefix}/" if self.prefix else ""

    def holds(self, other: Place) -> bool:
        """Whether another place is this one, or lies in it.

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
        """Whether it is FIFO, which its name says."""
        return self.name.endswith(".fifo")

    @property
    def dead_letters(self) -> str:
        """The name of the queue of its dead letters, which is of the same type."""
        return f"{self.name.removesuffix('.fifo')}-dead" + (".fifo" if self.is_fifo else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class GlueDatabases:
    """Databases of a Glue catalog, by name or as IAM writes patterns.

    Without a `region` or an `account` the catalog is that of the stack.
    """

    names: Sequence[str]
    region: str | None = None
    account: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedRegistration:
    """What is registered in Glue: tables of the lake, files of the source, and who may see them.

    `tables` are the databases of tables without a catalog of their own, `files` those of the source's files.
    `sets_tags` and `grants` say what Lake Formation is asked for.
    """

    tables: GlueDatabases
    files: GlueDatabases
    sets_tags: bool
    grants: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedRole:
    """A role that Iceberg assumes for its requests to AWS; with session tags if it `has_tags`."""

    arn: str
    has_tags: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedPipeline:
    """What a template needs to know of a pipeline.

    `databases` are those of the Glue catalog that Iceberg keeps its tables in; None where it has another catalog,
    and for the other formats. Iceberg takes on the role `assumed`, if there is one. `staging` is where a source
    keeps files for Spark's workers, if not in the warehouse, and `topics` are told how runs end. Runs write
    metrics into the namespace `metrics`, unless they are `unmeasured`. `tables` are those of the source, in the
    order of the settings, with the `folders` below the landing in which DMS keeps the files of each; those of
    tables that are `apart` are not as the source has them. `patterns` stand for more of them, and no table reads
    those that are `skipped`. With `matches_images` a table has no key, and finds rows by all that they were.
    `settings` is the address of the settings, by kind and name; None of a file.
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


def read_pipeline(configured: Configured, address_of_settings: str) -> DeployedPipeline:
    """Return the pipeline of settings; raises ConfigError for settings that cannot be deployed."""
    settings = configured.settings
    if configured.refused:
        raise next(iter(configured.refused.values()))
    _check_name(settings.pipeline.name)
    source = _source(configured)
    target = _target(settings.target)
    _refuse_local(configured.content)
    staging = source.staging if isinstance(source, DmsOptions) and source.cdc_path is not None else None
    archive = source.archive if source.landing == "archived" else None
    landing = _place(source.path, "path", "source")
    warehouse = _place(str(target["warehouse"]), "warehouse", "target")
    kept = {
        "warehouse": warehouse,
        "staging": None if staging is None else _place(staging, "staging", "source"),
        "archive": None if archive is None else _place(archive, "archive", "source"),
    }
    _refuse_places_within(landing, kept)
    own = _own_options(configured)
    return DeployedPipeline(
        name=settings.pipeline.name,
        source_kind=settings.source["kind"],
        source=source,
        landing=landing,
        archive=kept["archive"],
        warehouse=warehouse,
        format=target["kind"],
        databases=_databases(configured, target),
        assumed=_assumed_role(target),
        registration=_registration(configured, target),
        staging=kept["staging"],
        topics=_topics(configured.content),
        metrics=settings.metrics.namespace,
        unmeasured=settings.metrics.format != "cloudwatch",
        queue=_queue(settings.queue.kind, settings.queue.model_extra or {}, str(configured.file)),
        ledger=_table_of("ledger", settings.ledger),
        lease=_table_of_leases(settings.lease, settings.ledger),
        stores=[dict(store) for store in settings.settings.stores],
        secrets=[*dict.fromkeys(_secrets(configured.content))],
        tables=[*dict.fromkeys(configured.read[name] for name in configured.tables)],
        folders=_folders(source, own) if isinstance(source, DmsOptions) else {},
        apart=[name for name, said in own.items() if said.model_fields_set],
        patterns=configured.patterns,
        skipped=sorted(configured.skipped),
        matches_images=any(table.match == "image" for table in settings.tables.values()),
        settings=_address(address_of_settings),
    )


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,48}", name):
        raise ConfigError(
            f"the pipeline {name} cannot be deployed under its name",
            found="functions of Lambda and topics of SNS are called like it",
            todo="Let `name` under [pipeline] have up to 48 letters, digits, `-` and `_`, and no dot.",
        )


def _address(text: str) -> Mapping[str, str] | None:
    """Return the address of settings that a job can ask for; None of a file."""
    found = address(text)
    return None if found is None or found["kind"] == "file" else found


def _source(configured: Configured) -> DmsOptions | FilesOptions:
    options = configured.settings.source
    if options["kind"] not in _SOURCES:
        raise ConfigError(
            f"a source of the kind {options['kind']!r} cannot be deployed by a template",
            found="[source]",
            todo='It is for files in a bucket: `kind = "dms"` or `"files"`. Others are started by hand: '
            "docs/how-to/aws/jobs.md.",
        )
    own = {name: value for name, value in options.items() if name != "kind"}
    return validated(_SOURCES[options["kind"]], own, str(configured.file), within="source")


def _target(target: Mapping[str, Any]) -> Mapping[str, Any]:
    if target["kind"] not in FORMATS:
        raise ConfigError(
            f"tables of the kind {target['kind']!r} cannot be deployed by a template",
            found="[target]",
            todo='Take `kind = "iceberg"`, `"delta"` or `"hudi"`.',
        )
    catalog = target.get("catalog", "sqlite")
    if target["kind"] == "iceberg" and catalog not in ("glue", "rest"):
        raise ConfigError(
            f"the catalog {catalog!r} cannot be deployed by a template",
            found="a job has no disk that outlives it, and no way into a network",
            todo='Say `catalog = "glue"` under [target], or `"rest"` with its `uri`.',
        )
    signed = target.get("catalog_properties", {}).get("rest.signing-name")
    if signed in ("glue", "s3tables"):
        raise ConfigError(
            "an Iceberg catalog that AWS keeps cannot be deployed by a template over its REST endpoint",
            found=f'`"rest.signing-name" = "{signed}"` under [target.catalog_properties], and the role of the job '
            "would lack what the endpoint asks for",
            todo='Say `catalog = "glue"` under [target]; or start the job by hand: docs/how-to/aws/jobs.md.',
        )
    return {"warehouse": "", **target}


def _place(url: str, key: str, section: str) -> Place:
    if not is_url(url):
        raise ConfigError(
            f"`{key}` under [{section}] is no place in a bucket",
            found=f"it is {url!r}, and a job has no disk that outlives it",
            todo=f'Say `{key} = "s3://bucket/prefix"`.',
        )
    return Place.of(url)


def _refuse_places_within(landing: Place, kept: Mapping[str, Place | None]) -> None:
    """Raise ConfigError for a place where files land, or in the archive: what is for these, it would get too."""
    places = {"path": landing, **{key: lies for key, lies in kept.items() if lies is not None}}
    for key in (key for key in ("path", "archive") if key in places):
        outer = places[key]
        for inner, lies in places.items():
            if inner != key and outer.holds(lies):
                raise ConfigError(
                    f"`{inner}` lies within `{key}`",
                    found=f"{lies} is in {outer}, whose objects go to Glacier in time"
                    + (", and come by the queue as new files" if key == "path" else ""),
                    todo="Give each a bucket, or a prefix beside that of the other, as s3://bucket/landing and "
                    "s3://bucket/tables.",
                )


def _own_options(configured: Configured) -> Mapping[TableName, DmsTableOptions]:
    """Return the file options of each table; none for a source that is not DMS."""
    if configured.settings.source["kind"] != "dms":
        return {}
    file = str(configured.file)
    return {
        name: validated(DmsTableOptions, said, file, within=f'tables."{name}".source')
        for name, said in configured.source_options().items()
    }


def _folders(source: DmsOptions, own: Mapping[TableName, DmsTableOptions]) -> Mapping[TableName, Sequence[str]]:
    return {
        name: [*dict.fromkeys(part.folder for part in place(source, said).parts(name) if not part.is_shared)]
        for name, said in own.items()
    }


def _refuse_local(content: Mapping[str, Any]) -> None:
    """Raise ConfigError for settings that name a file or a network that a job cannot reach."""
    stores = content.get("settings", {}).get("stores", [])
    if any(store["kind"] == "file" for store in stores):
        raise ConfigError(
            "a settings store is a file",
            found="[settings], and a job has no files beside it",
            todo='Put it into a bucket, and name it by `kind = "s3"`; or put all into one file.',
        )
    for section in ("catalogue", "statistics"):
        said = content.get(section)
        if said is not None:
            raise ConfigError(
                f"[{section}] with `kind = {said.get('kind')!r}` cannot be deployed by a template",
                found="it names a file, or a database in a network that the job is not in",
                todo="Say the columns and keys of the tables in the settings, and leave it out."
                if section == "catalogue"
                else "Leave it out.",
            )


def _databases(configured: Configured, target: Mapping[str, Any]) -> GlueDatabases | None:
    """Return the Glue databases of Iceberg tables."""
    if target["kind"] != "iceberg" or target.get("catalog") != "glue":
        return None
    said = target.get("catalog_properties", {})
    region = said.get("glue.region") or said.get("client.region")
    names = sorted(_namespaces(configured, target))
    return GlueDatabases(names=names, region=region, account=_account(said.get("glue.id"), "glue.id"))


def _assumed_role(target: Mapping[str, Any]) -> AssumedRole | None:
    said = target.get("catalog_properties", {})
    arn = said.get("client.assume-role.arn")
    has_tags = any(name.startswith("client.assume-role.tags.") for name in said)
    return None if arn is None else AssumedRole(arn=arn, has_tags=has_tags)


def _namespaces(configured: Configured, target: Mapping[str, Any]) -> set[str]:
    """Return the namespaces of the tables of the lake; a pattern gives one for a pattern of IAM."""
    names = [*configured.tables, *configured.joined, *map(table_name, configured.patterns)]
    namespace = str(target.get("namespace", "{schema}"))
    return {namespace.format(schema=name.schema, table=name.table) for name in names}


def _registration(configured: Configured, target: Mapping[str, Any]) -> DeployedRegistration | None:
    """Return what is registered in Glue, whose names are in small letters."""
    said = configured.settings.registration
    if said is None or said.kind != "glue":
        return None
    options = validated(GlueOptions, said.model_extra or {}, str(configured.file), within="registration")
    account = _account(options.catalog_id, "catalog_id")
    tables = _namespaces(configured, target) if target["kind"] != "iceberg" else set()
    files = _namespaces_of_files(configured, said)
    if options.database is not None:
        tables, files = ({options.database} if some else set() for some in (tables, files))
    access = options.lake_formation or AccessOptions()
    of_tables = [*access.tables.values()]
    return DeployedRegistration(
        tables=_in_glue(tables, options.region, account),
        files=_in_glue(files, options.region, account),
        sets_tags=any([access.database_tags, access.lf_tags, *(t.lf_tags or t.column_tags for t in of_tables)]),
        grants=any([access.database_grants, access.grants, *(t.grants for t in of_tables)]),
    )


def _namespaces_of_files(configured: Configured, said: RegistrationSettings) -> set[str]:
    if said.raw is None:
        return set()
    read = [*configured.read.values(), *map(table_name, configured.patterns)]
    return {said.raw_namespace(name.schema) for name in read}


def _in_glue(names: Iterable[str], region: str | None, account: str | None) -> GlueDatabases:
    return GlueDatabases(names=sorted({name.lower() for name in names}), region=region, account=account)


def _account(catalog: str | None, key: str) -> str | None:
    """Return the account of a catalog; raises ConfigError for a catalog within one, as IAM names it otherwise."""
    if catalog is not None and not re.fullmatch(r"\d{12}", catalog):
        raise ConfigError(
            f"`{key}` names no catalog that a template could give access to",
            found=f"it is {catalog!r}",
            todo="Name the catalog of an account by its 12 digits, or leave it out.",
        )
    return catalog


def _topics(content: Mapping[str, Any]) -> Sequence[str]:
    """Return the topics of SNS that the settings name under [[notify]]."""
    said = content.get("notify", [])
    notifiers = [said] if isinstance(said, Mapping) else said
    return [str(one["topic"]) for one in notifiers if one["kind"] == "sns"]


def _queue(kind: str, options: Mapping[str, Any], where: str) -> DeployedQueue:
    if kind != "sqs":
        raise ConfigError(
            f"the queue of the kind {kind!r} cannot be deployed by a template",
            found="the state machine looks at a queue of SQS to know whether anything waits",
            todo=f"Say, under [queue]:\n{_QUEUE}",
        )
    said = validated(SqsOptions, options, where, within="queue")
    name = urlsplit(said.url).path.rpartition("/")[2]
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,70}(\.fifo)?", name) or said.endpoint is not None:
        raise ConfigError(
            "`url` under [queue] names no queue that a template could make",
            found=f"{said.url}" + ("" if said.endpoint is None else f" at the endpoint {said.endpoint}"),
            todo=f"The URL ends with the name of the queue, of letters, digits, `-` and `_`:\n{_QUEUE}",
        )
    return DeployedQueue(name, seconds_of(said.visibility))


def _table_of(section: str, options: Mapping[str, Any] | None) -> str:
    """Return the table of DynamoDB that a ledger or a lease is kept in."""
    if options is None or options.get("kind") != "dynamodb" or not isinstance(options.get("table"), str):
        kept = "there is none" if options is None else f"its `kind` is {options.get('kind')!r}"
        raise ConfigError(
            f"the {section} of the settings is not one that jobs can share",
            found=f"{kept}, and a job loses its disk when it ends",
            todo=f'Say, under [{section}]:\nkind = "dynamodb"\ntable = "lakeward-{section}s"',
        )
    return str(options["table"])


def _table_of_leases(options: Mapping[str, Any] | None, of_ledger: Mapping[str, Any] | None) -> str:
    """Return the table of a lease; raises ConfigError where it is that of the ledger, which has other keys."""
    found = _table_of("lease", options)
    if found == _table_of("ledger", of_ledger):
        raise ConfigError(
            "ledger and lease are in one table of DynamoDB",
            found=f"both name {found}, and its items can have the keys of one of them alone",
            todo='Name another table under [lease], as `table = "lakeward-leases"`.',
        )
    return found


def _secrets(content: Mapping[str, Any]) -> Iterator[SecretName]:
    """Yield the secrets that settings name; raises ConfigError for one that is on a machine."""
    for secret in (*secret_names(content, _SECRETS), *_secrets_of_hooks(content.get("notify", []))):
        if secret.kind in _SECRETS_OF_A_MACHINE:
            raise ConfigError(
                f"the secret {secret} is on a machine",
                found="a job has neither its environment nor its files",
                todo="Keep it in Secrets Manager (`aws-secrets-manager:NAME`) or in a parameter (`aws-ssm:NAME`).",
            )
        yield secret


def _secrets_of_hooks(value: Any) -> Iterator[SecretName]:
    """Yield the secrets in hooks of [[notify]], whose key does not say so: who has the `url` can write there."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "url":
                yield from secret_names({"secret": inner}, _SECRETS)
            else:
                yield from _secrets_of_hooks(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets_of_hooks(inner)


def tables_of_patterns(patterns: Sequence[str]) -> Sequence[TableName]:
    """Return patterns taken apart, each as a schema and a table with `*`.

    >>> tables_of_patterns(["shop.*"])
    [TableName(schema='shop', table='*')]
    """
    return [table_name(pattern) for pattern in patterns if is_pattern(pattern)]
