"""`lakeward settings`: show the settings with the origin of each value, and check them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, LakewardError
from lakeward.core.settings.layers import MergedSettings
from lakeward.core.text.numbers import format_count
from lakeward.core.text.suggestions import nearest
from lakeward.entrypoints.settings.configuration import Configuration
from lakeward.entrypoints.settings.patterns import (
    is_pattern,
    name_of_entry,
    plain,
    quoted,
    table_name,
    takes,
    with_patterns,
)
from lakeward.entrypoints.settings.secret_masking import mask_secrets, mask_urls
from lakeward.entrypoints.settings.stores import read_settings_of
from lakeward.entrypoints.startup.context import (
    DEFAULT_FILE,
    AsJson,
    Config,
    Debug,
    open_settings,
    start_logging,
)
from lakeward.entrypoints.startup.part_checks import PartChecks
from lakeward.entrypoints.views import documents, error_groups, terminal
from lakeward.entrypoints.views.safe_text import escaped
from lakeward.plugins.manager import load, registry_of

HELP = """Show the settings with the origin of each value, and check them; no table is changed.

Settings are in one file, and in the settings stores that it names: objects of S3, parameters, tables of DynamoDB.
"""

SHOW = """Show each value of the settings and its origin; secrets are hidden.

For a table it shows the effective values: its own keys, those of matching patterns, and those of \\[defaults].

Example: [bold]lakeward settings show shop.orders[/]
"""

CHECK = """Read all settings, and show the errors by table.

A table with invalid settings in a settings store fails alone. The catalogue, the secrets, the source, the tables
and the ledger are queried as a run does before its first batch, and each part is listed. Nothing is written, Spark
is not started, and the exit code is 1 if anything is wrong.

Example: [bold]lakeward settings check --json[/]
"""

Ask = Annotated[
    bool,
    typer.Option(help="Query services, or only build their clients from the settings, as for a test in CI."),
]
Table = Annotated[str | None, typer.Argument(help="Only this table, as schema.table.", show_default="all")]


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of the settings, its key as TOML writes it, and its origin."""

    key: str
    value: Any
    place: str


def show(
    table: Table = None, config: Config = DEFAULT_FILE, as_json: AsJson = False, debug: Debug = False
) -> int:
    """Show values of the settings; return 1 if a table is broken."""
    start_logging("off", debug=debug)
    merged, _ = read_settings_of(config)
    kinds = [*registry_of(load()).secrets]
    wanted = None if table is None else table_name(table)
    values = [*_all_values(merged, kinds)] if wanted is None else [*_table_values(merged, wanted, kinds)]
    broken = [
        (name_of_entry(name), error)
        for name, error in merged.broken.items()
        if wanted is None or plain(name_of_entry(name)) == plain(wanted)
    ]
    if wanted is not None and not values and not broken:
        raise _unknown_table(wanted, merged)
    code = 1 if broken else 0
    if as_json:
        listed = [{"key": value.key, "value": value.value, "from": value.place} for value in values]
        errors = [{"table": str(name), "error": documents.error(error)} for name, error in broken]
        documents.emit("settings show", {"values": listed, "errors": errors, "exit_code": code})
        return code
    grid = terminal.grid("key", "value", "from")
    for value in values:
        grid.add_row(escaped(value.key), escaped(_json_text(value.value)), escaped(value.place))
    if values:
        terminal.console().print(grid)
    error_groups.print_errors(broken)
    return code


def _unknown_table(wanted: TableName, merged: MergedSettings) -> ConfigError:
    tables = merged.content.get("tables", {})
    entries = tables if isinstance(tables, Mapping) else ()
    names = [str(name_of_entry(name)) for name in entries if not is_pattern(name)]
    return ConfigError(
        f"{wanted} is not configured",
        found="the tables are " + (", ".join(names) or "none"),
        todo=nearest(str(wanted), names),
    )


def _all_values(merged: MergedSettings, kinds: Collection[str]) -> Iterator[_Value]:
    """Yield every value of every layer."""
    for path, value, place in merged.of_values():
        yield from _flatten(path, value, place, kinds)


def _table_values(merged: MergedSettings, wanted: TableName, kinds: Collection[str]) -> Iterator[_Value]:
    """Yield the effective values of a table, with those of patterns and defaults."""
    tables, defaults = merged.content.get("tables", {}), merged.content.get("defaults", {})
    if not (isinstance(tables, Mapping) and isinstance(defaults, Mapping)):
        return
    names = [name for name in tables if not is_pattern(name)]
    own = next((name for name in names if plain(name_of_entry(name)) == plain(wanted)), None)
    patterns = [name for name in tables if is_pattern(name) and takes(name, wanted)]
    if own is None and not patterns:
        return
    relevant = {name: content for name, content in tables.items() if name in patterns or name == own}
    effective = with_patterns(relevant, defaults, () if own is not None else (wanted,))[own or quoted(wanted)]
    if not isinstance(effective, Mapping):
        return
    layers = [(("defaults",), defaults), *((("tables", name), tables[name]) for name in patterns)]
    layers += [] if own is None else [(("tables", own), tables[own])]
    for key, value in effective.items():
        above, _ = [layer for layer in layers if isinstance(layer[1], Mapping) and key in layer[1]][-1]
        section = "" if above == ("tables", own) else f", [{_toml(above)}]"
        yield from _flatten((key,), value, f"{merged.places[*above, key]}{section}", kinds)


def _flatten(path: Sequence[str], value: Any, place: str, kinds: Collection[str]) -> Iterator[_Value]:
    """Yield the values below a path one by one, with secrets masked."""
    masked = mask_urls(value, path[-1], kinds) if path[0] == "notify" else value
    yield from _flatten_masked(path, mask_secrets(masked, path[-1], kinds), place)


def _flatten_masked(path: Sequence[str], value: Any, place: str) -> Iterator[_Value]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _flatten_masked((*path, str(key)), inner, place)
    else:
        yield _Value(_toml(path), _plain(value), place)


def _toml(path: Sequence[str]) -> str:
    """Write a path as TOML writes a key."""
    bare = (part.replace("_", "").replace("-", "") for part in path)
    return ".".join(
        part if letters.isascii() and letters.isalnum() else json.dumps(part, ensure_ascii=False)
        for part, letters in zip(path, bare, strict=True)
    )


def _plain(value: Any) -> Any:
    """Return a value as plain JSON values; times of TOML become texts."""
    return json.loads(json.dumps(value, default=str, ensure_ascii=False))


def _json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def check(
    ask: Ask = True, config: Config = DEFAULT_FILE, as_json: AsJson = False, debug: Debug = False
) -> int:
    """Check the settings; return 1 if anything is wrong."""
    start_logging("off", debug=debug)
    checks = PartChecks(open_settings(config), ask)
    checks()
    configured, code = checks.configured, 0 if checks.is_fine else 1
    if as_json:
        listed = [_table_document(checks, name) for name in (*configured.tables, *configured.left_out)]
        parts = [
            {"part": result.part, "outcome": result.outcome, "error": _error(result.error)}
            for result in checks.done
        ]
        documents.emit("settings check", {"tables": listed, "parts": parts, "exit_code": code})
        return code
    _show_check(checks)
    return code


def _show_check(checks: PartChecks) -> None:
    configured, out = checks.configured, terminal.console()
    grid = terminal.grid("table", "settings from", "")
    for name in (*configured.tables, *configured.left_out):
        wrong = "[red]wrong[/]" if name in checks.wrong_tables else ""
        left_out = "left out" if name in configured.left_out else ""
        grid.add_row(escaped(str(name)), escaped(", ".join(_places(configured, name))), wrong or left_out)
    if configured.tables or configured.left_out:
        out.print(grid)
    parts = terminal.grid("part", "")
    for result in checks.done:
        parts.add_row(
            result.part,
            escaped(result.outcome)
            if result.error is None
            else f"[red]{escaped(result.outcome)}[/]",
        )
    out.print(parts)
    error_groups.print_errors(checks.wrong_tables.items())
    errors = {
        str(result.error): result.error
        for result in checks.done
        if result.error is not None
    }
    for error in errors.values():
        terminal.print_error(error)
    if errors:
        out.print("Fix this before a run.")
    elif checks.wrong_tables:
        number = format_count(len(checks.wrong_tables), "table fails", "tables fail")
        out.print(f"{number} until this is fixed; the others are run.")
    else:
        out.print("Nothing is wrong. Next: `lakeward plan`")


def _table_document(checks: PartChecks, name: TableName) -> Mapping[str, Any]:
    return {
        "table": str(name),
        "from": _places(checks.configured, name),
        "left_out": name in checks.configured.left_out,
        "error": _error(checks.wrong_tables.get(name)),
    }


def _error(error: LakewardError | None) -> Mapping[str, Any] | None:
    return None if error is None else documents.error(error)


def _places(configured: Configuration, name: TableName) -> Sequence[str]:
    """Return the origins of a table's settings; for a table that only patterns match, those of the patterns."""
    merged = configured.merged
    tables = merged.content.get("tables", {})
    own = [text for text in tables if not is_pattern(text) and plain(name_of_entry(text)) == plain(name)]
    entries = own or [text for text in tables if is_pattern(text) and takes(text, name)]
    return [*dict.fromkeys(place for text in entries for place in merged.places_of(text))]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    inner = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode="rich")
    inner.command("show", help=SHOW)(show)
    inner.command("check", help=CHECK)(check)
    app.add_typer(inner, name="settings")
