"""Reads a deployed pipeline from the settings, and refuses settings that a job on AWS cannot use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from lakeward.adapters.aws.s3.access import is_url
from lakeward.adapters.queues.sqs import SqsOptions
from lakeward.adapters.sources.dms.options import DmsOptions, DmsTableOptions, place
from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.settings.secrets import SecretName
from lakeward.core.text.durations import seconds_of
from lakeward.entrypoints.deployment.glue_databases import assumed_role, glue_registration, iceberg_databases
from lakeward.entrypoints.deployment.pipeline import DeployedPipeline, DeployedQueue, Place
from lakeward.entrypoints.job_package.table_formats import TABLE_FORMATS
from lakeward.entrypoints.settings.configuration import Configuration
from lakeward.entrypoints.settings.secret_masking import secret_names
from lakeward.entrypoints.settings.stores import address
from lakeward.plugins.options import validated

_SOURCES: Final[Mapping[str, type[DmsOptions] | type[FilesOptions]]] = {"dms": DmsOptions, "files": FilesOptions}
_QUEUE: Final = 'kind = "sqs"\nurl = "https://sqs.REGION.amazonaws.com/ACCOUNT/NAME"'
_SECRETS_OF_AWS: Final = ("aws-secrets-manager", "aws-ssm")
_SECRETS_OF_A_MACHINE: Final = ("env", "file")
_SECRETS: Final = (*_SECRETS_OF_AWS, *_SECRETS_OF_A_MACHINE)


def read_pipeline(configured: Configuration, address_of_settings: str) -> DeployedPipeline:
    """Return the pipeline of settings; raises ConfigError for settings that cannot be deployed."""
    settings = configured.settings
    if configured.refused:
        raise next(iter(configured.refused.values()))
    _check_name(settings.pipeline.name)
    source = _source(configured)
    target = _target(settings.target)
    _refuse_local(configured.content)
    places = _places(source, target)
    own = _own_options(configured)
    return DeployedPipeline(
        name=settings.pipeline.name,
        source_kind=settings.source["kind"],
        source=source,
        landing=places.landing,
        archive=places.archive,
        warehouse=places.warehouse,
        format=target["kind"],
        databases=iceberg_databases(configured, target),
        assumed=assumed_role(target),
        registration=glue_registration(configured, target),
        staging=places.staging,
        topics=_topics(configured.content),
        metrics=settings.metrics.namespace,
        unmeasured=settings.metrics.format != "cloudwatch",
        queue=_queue(settings.queue.kind, settings.queue.model_extra or {}, str(configured.file)),
        ledger=_table_of("ledger", settings.ledger),
        lease=_table_of_leases(settings.lease, settings.ledger),
        stores=[dict(store) for store in settings.settings.stores],
        secrets=[*dict.fromkeys(_secrets(configured.content))],
        tables=[*dict.fromkeys(configured.source_names[name] for name in configured.tables)],
        folders=_folders(source, own) if isinstance(source, DmsOptions) else {},
        apart=[name for name, options in own.items() if options.model_fields_set],
        patterns=configured.patterns,
        skipped=sorted(configured.skipped),
        matches_images=any(table.match == "image" for table in settings.tables.values()),
        settings=_address(address_of_settings),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """The places of a pipeline in buckets."""

    landing: Place
    warehouse: Place
    staging: Place | None
    archive: Place | None


def _places(source: DmsOptions | FilesOptions, target: Mapping[str, Any]) -> _Places:
    """Return the places of a pipeline; raises ConfigError if one is not in a bucket, or lies within another."""
    staging = source.staging if isinstance(source, DmsOptions) and source.cdc_path is not None else None
    archive = source.archive if source.landing == "archived" else None
    places = _Places(
        landing=_place(source.path, "path", "source"),
        warehouse=_place(str(target["warehouse"]), "warehouse", "target"),
        staging=None if staging is None else _place(staging, "staging", "source"),
        archive=None if archive is None else _place(archive, "archive", "source"),
    )
    others = {"warehouse": places.warehouse, "staging": places.staging, "archive": places.archive}
    _refuse_nested_places(places.landing, others)
    return places


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,48}", name):
        raise ConfigError(
            f"the pipeline {name} cannot be deployed under its name",
            found="Lambda functions and SNS topics have the name of the pipeline in their names",
            todo="Let `name` under [pipeline] have up to 48 letters, digits, `-` and `_`, and no dot.",
        )


def _address(text: str) -> Mapping[str, str] | None:
    """Return the kind and name of the settings store; None for a file."""
    parts = address(text)
    return None if parts is None or parts["kind"] == "file" else parts


def _source(configured: Configuration) -> DmsOptions | FilesOptions:
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
    if target["kind"] not in TABLE_FORMATS:
        first, *others = (f'"{name}"' for name in TABLE_FORMATS)
        raise ConfigError(
            f"tables of the kind {target['kind']!r} cannot be deployed by a template",
            found="[target]",
            todo=f"Set `kind = {first}`, {' or '.join(f'`{name}`' for name in others)}.",
        )
    catalog = target.get("catalog", "sqlite")
    if target["kind"] == "iceberg" and catalog not in ("glue", "rest"):
        raise ConfigError(
            f"the catalog {catalog!r} cannot be deployed by a template",
            found="a job loses its disk when it ends, and has no access to a private network",
            todo='Set `catalog = "glue"` under [target], or `"rest"` with its `uri`.',
        )
    signed = target.get("catalog_properties", {}).get("rest.signing-name")
    if signed in ("glue", "s3tables"):
        raise ConfigError(
            "the REST endpoint of an Iceberg catalog of AWS cannot be deployed by a template",
            found=f'`"rest.signing-name" = "{signed}"` under [target.catalog_properties], and the role of the job '
            "would lack the permissions that the endpoint requires",
            todo='Set `catalog = "glue"` under [target]; or start the job by hand: docs/how-to/aws/jobs.md.',
        )
    return {"warehouse": "", **target}


def _place(url: str, key: str, section: str) -> Place:
    if not is_url(url):
        raise ConfigError(
            f"`{key}` under [{section}] is no place in a bucket",
            found=f"it is {url!r}, and a job loses its disk when it ends",
            todo=f'Set `{key} = "s3://bucket/prefix"`.',
        )
    return Place.of(url)


def _refuse_nested_places(landing: Place, others: Mapping[str, Place | None]) -> None:
    """Raise ConfigError for a place within the landing place or the archive, whose rules would apply to it."""
    places = {"path": landing, **{key: place for key, place in others.items() if place is not None}}
    for outer_key in (key for key in ("path", "archive") if key in places):
        outer = places[outer_key]
        for key, inner in places.items():
            if key != outer_key and outer.holds(inner):
                raise ConfigError(
                    f"`{key}` lies within `{outer_key}`",
                    found=f"{inner} is in {outer}, whose objects go to Glacier in time"
                    + (", and come by the queue as new files" if outer_key == "path" else ""),
                    todo="Give each a bucket or a prefix of its own, such as s3://bucket/landing and "
                    "s3://bucket/tables.",
                )


def _own_options(configured: Configuration) -> Mapping[TableName, DmsTableOptions]:
    """Return the file options of each table; none for a source that is not DMS."""
    if configured.settings.source["kind"] != "dms":
        return {}
    file = str(configured.file)
    return {
        name: validated(DmsTableOptions, options, file, within=f'tables."{name}".source')
        for name, options in configured.source_options().items()
    }


def _folders(source: DmsOptions, own: Mapping[TableName, DmsTableOptions]) -> Mapping[TableName, Sequence[str]]:
    return {
        name: [*dict.fromkeys(part.folder for part in place(source, options).parts(name) if not part.is_shared)]
        for name, options in own.items()
    }


def _refuse_local(content: Mapping[str, Any]) -> None:
    """Raise ConfigError for settings that name a file or a network that a job cannot reach."""
    stores = content.get("settings", {}).get("stores", [])
    if any(store["kind"] == "file" for store in stores):
        raise ConfigError(
            "a settings store is a file",
            found="[settings], and a job has only one settings file",
            todo='Put it into a bucket, and name it with `kind = "s3"`; or put all settings into one file.',
        )
    for section in ("catalogue", "statistics"):
        options = content.get(section)
        if options is not None:
            raise ConfigError(
                f"[{section}] with `kind = {options.get('kind')!r}` cannot be deployed by a template",
                found="it names a file, or a database in a network that the job is not in",
                todo="Declare the columns and keys of the tables in the settings, and leave it out."
                if section == "catalogue"
                else "Leave it out.",
            )


def _topics(content: Mapping[str, Any]) -> Sequence[str]:
    """Return the topics of SNS that the settings name under [[notify]]."""
    options = content.get("notify", [])
    notifiers = [options] if isinstance(options, Mapping) else options
    return [str(notifier["topic"]) for notifier in notifiers if notifier["kind"] == "sns"]


def _queue(kind: str, options: Mapping[str, Any], where: str) -> DeployedQueue:
    if kind != "sqs":
        raise ConfigError(
            f"the queue of the kind {kind!r} cannot be deployed by a template",
            found="the state machine reads the size of a queue of SQS",
            todo=f"Write under [queue]:\n{_QUEUE}",
        )
    queue_options = validated(SqsOptions, options, where, within="queue")
    name = urlsplit(queue_options.url).path.rpartition("/")[2]
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,70}(\.fifo)?", name) or not queue_options.is_in_aws:
        raise ConfigError(
            "`url` under [queue] names no queue that a template could create",
            found=queue_options.url
            + ("" if queue_options.endpoint is None else f" at the endpoint {queue_options.endpoint}"),
            todo="The host of the URL must be that of SQS in AWS, and its path must end with its name, of "
            f"letters, digits, `-` and `_`:\n{_QUEUE}",
        )
    return DeployedQueue(name, seconds_of(queue_options.visibility))


def _table_of(section: str, options: Mapping[str, Any] | None) -> str:
    """Return the DynamoDB table of a ledger or a lease; raises ConfigError if it is not in DynamoDB."""
    if options is None or options.get("kind") != "dynamodb" or not isinstance(options.get("table"), str):
        cause = "there is none" if options is None else f"its `kind` is {options.get('kind')!r}"
        raise ConfigError(
            f"the {section} of the settings is not one that jobs can share",
            found=f"{cause}, and a job loses its disk when it ends",
            todo=f'Write under [{section}]:\nkind = "dynamodb"\ntable = "lakeward-{section}s"',
        )
    return str(options["table"])


def _table_of_leases(options: Mapping[str, Any] | None, of_ledger: Mapping[str, Any] | None) -> str:
    """Return the table of the lease; raises ConfigError for that of the ledger, which has other keys."""
    table = _table_of("lease", options)
    if table == _table_of("ledger", of_ledger):
        raise ConfigError(
            "ledger and lease are in one table of DynamoDB",
            found=f"both name {table}, and the two need different keys",
            todo='Name another table under [lease], such as `table = "lakeward-leases"`.',
        )
    return table


def _secrets(content: Mapping[str, Any]) -> Iterator[SecretName]:
    """Yield the secrets that settings name; raises ConfigError for one in an environment variable or a file."""
    for secret in (*secret_names(content, _SECRETS), *_secrets_of_hooks(content.get("notify", []))):
        if secret.kind in _SECRETS_OF_A_MACHINE:
            raise ConfigError(
                f"the secret {secret} is on a machine",
                found="a job has neither its environment nor its files",
                todo="Put it into Secrets Manager (`aws-secrets-manager:NAME`) or a parameter (`aws-ssm:NAME`).",
            )
        yield secret


def _secrets_of_hooks(value: Any) -> Iterator[SecretName]:
    """Yield the secrets in webhooks of [[notify]]: a `url` is a secret, since it gives write access."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "url":
                yield from secret_names({"secret": inner}, _SECRETS)
            else:
                yield from _secrets_of_hooks(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets_of_hooks(inner)
