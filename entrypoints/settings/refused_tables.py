"""Tables of settings stores with invalid settings: each fails alone, and the others are run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, LakewardError
from lakeward.core.ports import Source
from lakeward.core.settings.layers import MergedSettings
from lakeward.entrypoints.settings.error_origins import ErrorOrigins, is_of_defaults
from lakeward.entrypoints.settings.patterns import is_pattern, table_name

if TYPE_CHECKING:
    from lakeward.entrypoints.settings.configuration import Configuration

Check: TypeAlias = Callable[[Mapping[str, Any]], object]
"""Raises ConfigError for invalid settings."""


def find_refused_tables(error_origins: ErrorOrigins, check: Check) -> Mapping[str, LakewardError]:
    """Return the tables of stores that fail alone, by the names of their entries, with their errors.

    Of two tables that contradict each other, the later one fails. Raises ConfigError for errors in anything else:
    the sections of the pipeline, the defaults, patterns, and tables of the settings file.
    """
    content, merged = error_origins.content, error_origins.merged
    tables: Mapping[str, Any] = content.get("tables", {})
    stored = [name for name in tables if name in merged.alone and not is_pattern(name)]
    rest = {name: own for name, own in tables.items() if name not in stored}
    base = {section: own for section, own in content.items() if section not in ("tables", "joined")}
    refused = _unreadable(merged)
    check({**base, "tables": rest})
    patterns = {name: own for name, own in tables.items() if is_pattern(name)}
    for name in stored:
        try:
            table_name(name)
            check({**base, "tables": {**patterns, name: tables[name]}})
        except ConfigError as error:
            if is_of_defaults(error):
                raise
            refused[name] = error_origins.of_table(name, error)
    valid = {name: tables[name] for name in stored if name not in refused}
    if not _is_consistent(base, {**rest, **valid}, check):
        refused |= _conflicting_tables(base, rest, valid, error_origins, check)
    return refused


def _unreadable(merged: MergedSettings) -> dict[str, LakewardError]:
    """Return the entries that stores cannot read; raises the error of an entry for several tables."""
    for name, error in merged.broken.items():
        if is_pattern(name):
            raise error
    return dict(merged.broken)


def _is_consistent(base: Mapping[str, Any], tables: Mapping[str, Any], check: Check) -> bool:
    try:
        check({**base, "tables": tables})
    except ConfigError:
        return False
    return True


def _conflicting_tables(
    base: Mapping[str, Any],
    rest: Mapping[str, Any],
    valid: Mapping[str, Any],
    error_origins: ErrorOrigins,
    check: Check,
) -> Mapping[str, LakewardError]:
    """Return the tables that conflict with earlier ones."""
    selection, refused = dict(rest), dict[str, LakewardError]()
    for name, own in valid.items():
        try:
            check({**base, "tables": {**selection, name: own}})
        except ConfigError as error:
            refused[name] = error_origins.of_table(name, error)
        else:
            selection[name] = own
    return refused


def find_tables_refused_by_adapters(configured: Configuration, container: Any) -> Mapping[TableName, LakewardError]:
    """Return the tables of stores that the source or the table format refuses, with the errors.

    Of tables that are refused only together, the later one fails. Errors of the source or the format itself are not
    returned: they are raised when these are built.
    """
    refused: dict[TableName, LakewardError] = {}
    if _config_error(container) is None:
        return refused
    unchecked = dict.fromkeys(configured.stored_tables, ConfigError("not checked yet"))
    if _config_error(container, configured.with_refused(unchecked)) is not None:
        return refused
    for name in configured.stored_tables:
        del unchecked[name]
        error = _config_error(container, configured.with_refused({**refused, **unchecked}))
        if error is not None:
            if is_of_defaults(error):
                return {}
            refused[name] = configured.error_origins.of_table(configured.entry_of(name), error)
    return refused


def _config_error(container: Any, configured: Configuration | None = None) -> ConfigError | None:
    """Return the ConfigError of building source and table format from settings, or None.

    Errors of other kinds are no reason to refuse a table; they are raised again when the parts are built.
    """
    from lakeward.entrypoints.container import Container  # noqa: PLC0415  # only with stores

    parts = container
    if configured is not None:
        parts = Container(configured=configured)
        parts.manager.override(container.manager())
    try:
        source: Source[Any] = parts.source()
        parts.target()
        parts.configured().check_lateness(source.lateness)
    except LakewardError as error:
        return error if isinstance(error, ConfigError) else None
    return None


def describe_left_out(left_out: Mapping[TableName, Iterable[str]]) -> Sequence[str]:
    """Return sentences about tables that a settings store leaves out."""
    return [f"{name} is left out, as {' and '.join(places)} says." for name, places in sorted(left_out.items())]
