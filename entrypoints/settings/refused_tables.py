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
    from lakeward.entrypoints.settings.configuration import Configured

Check: TypeAlias = Callable[[Mapping[str, Any]], object]
"""Raises ConfigError for invalid settings."""


def find_refused_tables(error_origins: ErrorOrigins, check: Check) -> Mapping[str, LakewardError]:
    """Return the tables that fail alone, by the names of their entries, with the reason.

    Raises ConfigError for what is wrong with the rest: the sections of the pipeline, defaults, patterns, tables of
    the file. Of two tables that do not go together the later one fails.
    """
    content, merged = error_origins.content, error_origins.merged
    tables: Mapping[str, Any] = content.get("tables", {})
    alone = [name for name in tables if name in merged.alone and not is_pattern(name)]
    rest = {name: own for name, own in tables.items() if name not in alone}
    base = {section: said for section, said in content.items() if section not in ("tables", "joined")}
    refused = _unreadable(merged)
    check({**base, "tables": rest})
    patterns = {name: own for name, own in tables.items() if is_pattern(name)}
    for name in alone:
        try:
            table_name(name)
            check({**base, "tables": {**patterns, name: tables[name]}})
        except ConfigError as error:
            if is_of_defaults(error):
                raise
            refused[name] = error_origins.of_table(name, error)
    fine = {name: tables[name] for name in alone if name not in refused}
    if not _goes_with(base, {**rest, **fine}, check):
        refused |= _conflicting_tables(base, rest, fine, error_origins, check)
    return refused


def _unreadable(merged: MergedSettings) -> dict[str, LakewardError]:
    """Return the entries that stores cannot read; raises the error of an entry for several tables."""
    for name, error in merged.broken.items():
        if is_pattern(name):
            raise error
    return dict(merged.broken)


def _goes_with(base: Mapping[str, Any], tables: Mapping[str, Any], check: Check) -> bool:
    try:
        check({**base, "tables": tables})
    except ConfigError:
        return False
    return True


def _conflicting_tables(
    base: Mapping[str, Any],
    rest: Mapping[str, Any],
    fine: Mapping[str, Any],
    error_origins: ErrorOrigins,
    check: Check,
) -> Mapping[str, LakewardError]:
    """Return the tables that conflict with earlier ones."""
    selection, refused = dict(rest), dict[str, LakewardError]()
    for name, own in fine.items():
        try:
            check({**base, "tables": {**selection, name: own}})
        except ConfigError as error:
            refused[name] = error_origins.of_table(name, error)
        else:
            selection[name] = own
    return refused


def find_tables_refused_by_adapters(configured: Configured, container: Any) -> Mapping[TableName, LakewardError]:
    """Return the tables of stores that source or table format reject, with the errors.

    Of tables that it does not take together the later one fails. What is wrong with the source or the format
    themselves is left for who builds them.
    """
    refused: dict[TableName, LakewardError] = {}
    if _config_error(container) is None:
        return refused
    waiting = dict.fromkeys(configured.alone, ConfigError("not looked at"))
    if _config_error(container, configured.with_refused(waiting)) is not None:
        return refused
    for name in configured.alone:
        del waiting[name]
        error = _config_error(container, configured.with_refused({**refused, **waiting}))
        if error is not None:
            if is_of_defaults(error):
                return {}
            refused[name] = configured.error_origins.of_table(configured.entry_of(name), error)
    return refused


def _config_error(container: Any, configured: Configured | None = None) -> ConfigError | None:
    """Return the error of building source and table format from settings, or None.

    An error of another kind comes again to who builds them: it is no reason to refuse a table.
    """
    from lakeward.entrypoints.container import Container  # noqa: PLC0415  # only with stores

    made = container
    if configured is not None:
        made = Container(configured=configured)
        made.manager.override(container.manager())
    try:
        source: Source[Any] = made.source()
        made.target(), made.configured().check_lateness(source.lateness)
    except LakewardError as error:
        return error if isinstance(error, ConfigError) else None
    return None


def words_of_left_out(left_out: Mapping[TableName, Iterable[str]]) -> Sequence[str]:
    """Return sentences about tables that a settings store leaves out."""
    return [f"{name} is left out, as {' and '.join(places)} says." for name, places in sorted(left_out.items())]
