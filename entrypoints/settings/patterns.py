"""Names of tables in the settings, and patterns that match several, such as `sales.*`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError

_NAME: Final = re.compile(r'(?:"((?:[^"]|"")+)"|([^".]+))\.(?:"((?:[^"]|"")+)"|([^".][^"]*))')


def table_name(text: str) -> TableName:
    """Read `schema.table`; a part with a dot in it stands in double quotes.

    >>> table_name('sales."odd.name"')
    TableName(schema='sales', table='odd.name')
    """
    match = _NAME.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"{text!r} does not name a table",
            todo='Tables are named as schema.table; a part with a dot in it as "odd.name", in double quotes.',
        )
    schema, plain_schema, table, plain_table = match.groups("")
    return TableName(schema.replace('""', '"') or plain_schema, table.replace('""', '"') or plain_table)


def name_of_entry(text: str) -> TableName:
    """Return the table of an entry of a store; an entry that names none gets the schema `?`."""
    try:
        return table_name(text)
    except ConfigError:
        return TableName("?", text)


def plain(name: TableName) -> TableName:
    """Return a name in lower case, as names are compared."""
    return TableName(*(part.lower() for part in name))


def is_pattern(text: str) -> bool:
    """Return True if a name is a pattern: it has a `*` that is not in double quotes.

    >>> is_pattern("sales.*"), is_pattern('sales."5*"')
    (True, False)
    """
    return "*" in _QUOTED.sub("", text)


def takes(pattern: str, table: TableName) -> bool:
    """Return True if a pattern matches a table; case is ignored, and `*` matches any part of a name.

    >>> takes("sales.ord*", TableName("SALES", "Orders"))
    True
    """
    table_name(pattern)  # raises ConfigError for an invalid name
    match = _NAME.fullmatch(pattern)
    quoted_schema, schema, quoted_table, name = match.groups() if match else ()
    pairs = zip(((quoted_schema, schema), (quoted_table, name)), table, strict=True)
    return all(re.fullmatch(_expression(*pair), part, re.IGNORECASE | re.DOTALL) for pair, part in pairs)


def _expression(in_quotes: str | None, bare: str | None) -> str:
    if in_quotes is not None:
        return re.escape(in_quotes.replace('""', '"'))
    return ".*".join(re.escape(part) for part in (bare or "").split("*"))


def with_patterns(
    tables: Mapping[str, Any], defaults: Mapping[str, Any], found: Collection[TableName]
) -> Mapping[str, Any]:
    """Return the effective settings of each table: its own, over those of its patterns, over the defaults.

    Those that are found and that a pattern takes stand beside those that are named. The
    patterns themselves stay, each with the defaults, so that what they say is checked. Raises ConfigError
    where one of these says what is of one table alone.
    """
    patterns = {name: own for name, own in tables.items() if is_pattern(name)}
    _refuse_names({"[defaults]": defaults, **{f'[tables."{name}"]': own for name, own in patterns.items()}})
    names = {name: table_name(name) for name in tables if name not in patterns}
    named = set(names.values())
    elsewhere = {plain(table) for table in named if table not in found}  # the source may spell them in another case
    for table in found:
        is_new = table not in named and plain(table) not in elsewhere
        if is_new and any(takes(pattern, table) for pattern in patterns):
            names[quoted(table)] = table
    merged: dict[str, Any] = {name: _over(defaults, own) for name, own in patterns.items()}
    for name, table in names.items():
        said = [own for pattern, own in patterns.items() if takes(pattern, table)]
        merged[name] = _over(defaults, *said, tables.get(name, {}))
    return merged


def _refuse_names(sections: Mapping[str, Any]) -> None:
    """Refuse keys in patterns and defaults that give a name to a single table."""
    for section, own in sections.items():
        for key in _OF_ONE:
            if isinstance(own, Mapping) and key in own:
                raise ConfigError(
                    f"{section} is for many tables, and `{key}` names one",
                    found=f"{key} = {own[key]!r}",
                    todo="Say it in the section of the table that it is for.",
                )


def _over(*settings: Any) -> Any:
    """Return settings of which the later count more; what is no table of keys stays, to be refused.

    What others than the last say of histories is not for a mirror, nor the other way round, and what they say of
    snapshots not for a table that is loaded once.
    """
    strange = [own for own in settings if not isinstance(own, Mapping)]
    if strange:
        return strange[0]
    merged = {key: value for own in settings for key, value in own.items()}
    mode, idle = merged.get("mode"), set[str]()
    if mode != "history" and not (isinstance(mode, list) and "history" in mode):
        idle.update(_OF_HISTORIES)
    if mode == "history":
        idle.update(OF_MIRRORS)
    if merged.get("full_loads") != "snapshot":
        idle.update(OF_SNAPSHOTS)
    return {key: value for key, value in merged.items() if key not in idle or key in settings[-1]}


def quoted(table: TableName) -> str:
    """Return the name of a table, quoted so that it is no pattern."""
    if "*" not in str(table):
        return str(table)
    return ".".join('"' + part.replace('"', '""') + '"' for part in table)


_OF_HISTORIES: Final = ("track", "history")
OF_MIRRORS: Final = ("deletes",)
OF_SNAPSHOTS: Final = ("load_settles", "least_share", "older_snapshots")
"""Keys that only apply if full loads are snapshots."""
_OF_ONE: Final = ("reads", "history_table")
_QUOTED: Final = re.compile(r'"(?:[^"]|"")+"')
