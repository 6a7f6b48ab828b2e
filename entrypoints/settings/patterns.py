"""Names of tables in the settings, and patterns that match several, such as `sales.*`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError

_NAME: Final = re.compile(r'(?:"((?:[^"]|"")+)"|([^".]+))\.(?:"((?:[^"]|"")+)"|([^".][^"]*))')


def table_name(text: str) -> TableName:
    """Read `schema.table`; a part with a dot in it is in double quotes. Raises ConfigError for any other text.

    >>> table_name('sales."odd.name"')
    TableName(schema='sales', table='odd.name')
    """
    match = _NAME.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"{text!r} does not name a table",
            todo='Write schema.table; put a part with a dot in double quotes, as in sales."odd.name".',
        )
    schema, plain_schema, table, plain_table = match.groups("")
    return TableName(schema.replace('""', '"') or plain_schema, table.replace('""', '"') or plain_table)


def name_of_entry(text: str) -> TableName:
    """Return the name of the table of an entry; the schema is `?` for a text that is no name of a table."""
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
    tables: Mapping[str, Any], defaults: Mapping[str, Any], source_tables: Collection[TableName]
) -> Mapping[str, Any]:
    """Return the effective settings of each table: its own, over those of its patterns, over the defaults.

    The result has the named tables and the tables of the source that a pattern matches. Patterns stay in it, merged
    with the defaults, so that their keys are validated. Raises ConfigError if a pattern or the defaults have a key
    that names a single table.
    """
    patterns = {name: own for name, own in tables.items() if is_pattern(name)}
    _refuse_keys_of_one_table(
        {"[defaults]": defaults, **{f'[tables."{name}"]': own for name, own in patterns.items()}}
    )
    names = {name: table_name(name) for name in tables if name not in patterns}
    named = set(names.values())
    in_other_case = {plain(table) for table in named if table not in source_tables}
    for table in source_tables:
        is_new = table not in named and plain(table) not in in_other_case
        if is_new and any(takes(pattern, table) for pattern in patterns):
            names[quoted(table)] = table
    merged: dict[str, Any] = {name: _merge_layers(defaults, own) for name, own in patterns.items()}
    for name, table in names.items():
        of_patterns = [own for pattern, own in patterns.items() if takes(pattern, table)]
        merged[name] = _merge_layers(defaults, *of_patterns, tables.get(name, {}))
    return merged


def _refuse_keys_of_one_table(sections: Mapping[str, Any]) -> None:
    """Refuse keys in patterns and defaults that give a name to a single table."""
    for section, own in sections.items():
        for key in _OF_ONE:
            if isinstance(own, Mapping) and key in own:
                raise ConfigError(
                    f"`{key}` is for one table, and {section} is for many",
                    found=f"{key} = {own[key]!r}",
                    todo="Move it to the section of that table.",
                )


def _merge_layers(*layers: Any) -> Any:
    """Return merged layers of settings; a later layer overrides earlier ones.

    A layer that is not a table of keys is returned as it is, and refused later. Keys that do not apply to the mode
    or the full loads of the table are dropped unless the last layer, that of the table itself, has them.
    """
    invalid = [layer for layer in layers if not isinstance(layer, Mapping)]
    if invalid:
        return invalid[0]
    merged = {key: value for layer in layers for key, value in layer.items()}
    mode, inapplicable = merged.get("mode"), set[str]()
    if mode != "history" and not (isinstance(mode, list) and "history" in mode):
        inapplicable.update(_OF_HISTORIES)
    if mode == "history":
        inapplicable.update(OF_MIRRORS)
    if merged.get("full_loads") != "snapshot":
        inapplicable.update(OF_SNAPSHOTS)
    return {key: value for key, value in merged.items() if key not in inapplicable or key in layers[-1]}


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
