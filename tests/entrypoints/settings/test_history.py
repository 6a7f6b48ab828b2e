"""Histories in the settings: what they become, and the words for those that are wrong."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
import shop
from commands import Command
from projects import MEMORY, write

from lakeward.core.dimension import Mode, Older, Snapshots, TableName
from lakeward.core.errors import ConfigError
from lakeward.core.history.options import ByColumn, ByRun, ByTime, History, Kind, Surrogate, Track, ValidityColumns
from lakeward.core.schema import Type
from lakeward.core.settings.source_catalogue import Answer, CatalogueAnswers, SourceColumn, SourceTable
from lakeward.entrypoints.settings.configuration import load

NAME = TableName("shop", "customer")
COLUMNS = 'columns = { customer_id = "int", email = "string", region = "string", changed_at = "timestamp" }'
CUSTOMER = f"""
[tables."shop.customer"]
key = ["customer_id"]
mode = "history"
{COLUMNS}
"""
DAYS = date(9999, 12, 31).toordinal() - date(1970, 1, 1).toordinal()
MICROS = 86_400_000_000


def history(folder: Path, *parts: str) -> History:
    found = load(write(folder, MEMORY, CUSTOMER, *parts)).dimension(NAME).history
    assert found is not None
    return found


def options(folder: Path, words: str) -> History:
    return history(folder, f'[tables."shop.customer".history]\n{words}\n')


def refusal(folder: Path, *parts: str) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        load(write(folder, MEMORY, *parts))
    return refused.value


def test_a_table_is_a_mirror_unless_it_is_said_to_be_a_history(tmp_path: Path) -> None:
    assert load(write(tmp_path, MEMORY, CUSTOMER)).dimension(NAME).mode is Mode.HISTORY
    mirror = CUSTOMER.replace('mode = "history"', "")
    assert load(write(tmp_path, MEMORY, mirror)).dimension(NAME).mode is Mode.MIRROR


@pytest.mark.parametrize(
    ("words", "track"),
    [
        ("", Track()),
        ('track = ["*"]', Track()),
        ('track = ["email", "region"]', Track(frozenset({"email", "region"}), but=False)),
        ('track = { all_but = ["changed_at"] }', Track(frozenset({"changed_at"}))),
    ],
)
def test_all_columns_are_tracked_or_some_or_all_but_some(tmp_path: Path, words: str, track: Track) -> None:
    assert history(tmp_path, f"{words}\n") == History(track=track), "all else is as the core has it"


def test_every_option_is_one_of_the_core(tmp_path: Path) -> None:
    words = """
        validity = { column = "changed_at" }
        first_load = "1900-01-01"
        valid_from = "since"
        valid_to = "until"
        is_current = false
        type = "date"
        open_end = "9999-12-31"
        closed = true
        surrogate = "hash"
        surrogate_column = "version"
        previous_key = true
        known = true
        known_from = "told"
        known_to = "revoked"
        kinds = { email = 1, region = 3 }
    """
    assert options(tmp_path, words) == History(
        validity=ByColumn("changed_at"),
        first_load=-25567,
        previous_key=True,
        is_bitemporal=True,
        kinds={"email": Kind.OVERWRITE, "region": Kind.PREVIOUS},
        validity_columns=ValidityColumns(
            valid_from="since",
            valid_to="until",
            is_current=None,
            type=Type("date"),
            open_end=DAYS,
            closed=True,
            surrogate=Surrogate.HASH,
            surrogate_column="version",
            known_from="told",
            known_to="revoked",
        ),
    )


def test_days_of_a_table_that_says_its_own_zone_are_cut_in_that(tmp_path: Path) -> None:
    memory = MEMORY.replace('kind = "memory"', 'kind = "memory"\nsource_zone = "Europe/Berlin"', 1)
    other = CUSTOMER.replace("shop.customer", "shop.other")
    own = CUSTOMER + 'source = { source_zone = "Asia/Tokyo" }\n'
    found = load(write(tmp_path, memory, own, other))
    zones = [one.zone for name in found.tables if (one := found.dimension(name).history) is not None]
    assert zones == ["Asia/Tokyo", "Europe/Berlin"]
    both = CUSTOMER.replace('"history"', '["mirror", "history"]') + 'source = { source_zone = "Asia/Tokyo" }\n'
    kept = load(write(tmp_path, memory, both)).dimension(TableName("shop", "customer_history")).history
    assert kept == History(zone="Asia/Tokyo")


@pytest.mark.parametrize(
    ("words", "validity", "type_"),
    [
        ('validity = "time"', ByTime(), Type("timestamp")),
        ('type = "timestamp_ntz"', ByTime(), Type("timestamp_ntz")),
        ('validity = "run"', ByRun(), Type("date")),
        ("closed = true", ByTime(), Type("date")),
        ('validity = { column = "changed_at" }', ByColumn("changed_at"), Type("timestamp")),
        ('type = "bigint"\nvalidity = { column = "customer_id" }', ByColumn("customer_id"), Type("bigint")),
        ('type = "decimal(20,0)"\nvalidity.column = "customer_id"', ByColumn("customer_id"), Type("decimal", 20)),
    ],
)
def test_runs_and_closed_ends_are_days_and_all_else_is_a_time_unless_it_is_said(
    tmp_path: Path, words: str, validity: object, type_: Type
) -> None:
    found = options(tmp_path, words)
    assert (found.validity, found.validity_columns.type) == (validity, type_)


@pytest.mark.parametrize(
    ("words", "instant"),
    [
        ('open_end = "1970-01-02"', MICROS),
        ("open_end = 1970-01-02", MICROS),
        ("open_end = 1970-01-02T01:00:00+01:00", MICROS),
        ('open_end = "1970-01-01 22:00:00-02:00"', MICROS),
        ('type = "timestamp_ntz"\nopen_end = 1970-01-02T00:00:00.000001', MICROS + 1),
        ('type = "date"\nopen_end = 1970-01-02', 1),
        ('type = "int"\nvalidity = { column = "customer_id" }\nopen_end = 7', 7),
        ('type = "decimal(10,0)"\nvalidity = { column = "customer_id" }\nopen_end = "7"', 7),
    ],
)
def test_an_instant_is_written_in_the_type_of_validity(tmp_path: Path, words: str, instant: int) -> None:
    assert options(tmp_path, words).validity_columns.open_end == instant
    assert options(tmp_path, words.replace("open_end", "first_load")).first_load == instant


def test_defaults_may_say_it_of_all_tables_and_a_table_that_it_is_a_mirror(tmp_path: Path) -> None:
    parts = """
        [defaults]
        mode = "history"
        track = { all_but = ["seen_at"] }
        history = { type = "date" }
        [tables."shop.customer"]
        key = ["customer_id"]
        [tables."shop.log"]
        mode = "mirror"
    """
    configured = load(write(tmp_path, MEMORY, parts))
    expected = History(track=Track(frozenset({"seen_at"})), validity_columns=ValidityColumns(type=Type("date")))
    assert configured.dimension(NAME).history == expected
    assert configured.dimension(TableName("shop", "log")).history is None


def test_defaults_may_say_how_those_are_kept_that_are_histories(tmp_path: Path) -> None:
    parts = '[defaults]\nhistory = { open_end = "1970-01-02" }\n[tables."shop.log"]\n'
    configured = load(write(tmp_path, MEMORY, parts, CUSTOMER))
    found = configured.dimension(NAME).history
    assert found is not None
    assert found.validity_columns.open_end == MICROS
    assert configured.dimension(TableName("shop", "log")).history is None


def test_a_history_is_planned_and_run_as_one(lakeward: Command, tmp_path: Path) -> None:
    """The shop inserts two rows, and changes both in the next batch: so two versions end, and two begin."""
    file = str(write(tmp_path, shop.SETTINGS, 'mode = "history"\n'))
    assert "(memory, history)" in lakeward("plan", "--config", file).out
    assert lakeward("run", "--once", "--config", file).code == 0
    assert [report.progress.rows for report in shop.REPORTS] == [2, 4]


# What is refused.


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("vality = 1", "[tables.\"shop.customer\".history] has no key 'vality'"),
        ('validity = "tim"', '.validity]: must be "time", "run", or { column = "…" }'),
        ('validity = { colum = "x" }', '.validity]: must be "time", "run", or { column = "…" }'),
        ("validity = { column = 3 }", '.validity]: must be "time", "run", or { column = "…" }'),
        ("valid_from = ''", ".valid_from]: '' cannot name a column"),
        ('valid_to = "_Lakeward_to"', ".valid_to]: '_Lakeward_to' cannot name a column"),
        ('surrogate_column = "a\\nb"', ".surrogate_column]: 'a\\nb' cannot name a column"),
        ("is_current = true", ".is_current]: must be the name of a column, or false"),
        ('is_current = ""', ".is_current]: '' cannot name a column"),
        ('type = "string"', ".type]: must be timestamp, timestamp_ntz, date, int, bigint, or a decimal"),
        ('type = "dat"', ".type]: must be timestamp, timestamp_ntz, date, int, bigint, or a decimal"),
        ('type = "decimal(8,2)"', ".type]: must be timestamp, timestamp_ntz, date, int, bigint, or a decimal"),
        ('surrogate = "uuid"', ".surrogate]: input should be 'hash' or 'number'"),
        ("kinds = { email = 4 }", ".kinds.email]: input should be 0, 1, 2, 3 or 6"),
        *((f"kinds = {{ email = {number} }}", "must be 0, 1, 2, 3 or 6") for number in ("true", "1.0", '"1"')),
        ("first_load = true", "`first_load` 'true' is no timestamp"),
        ("first_load = 10:00:00", ".history]: `first_load` '10:00:00' is no timestamp: write it as 1900-01-01 or"),
        ('type = "date"\nopen_end = 10:00:00', "`open_end` '10:00:00' is no date: write it as 1900-01-01"),
        ('first_load = "soon"', "'soon' is no timestamp: write it as 1900-01-01 or 1900-01-01T00:00:00, in UTC"),
        ('type = "date"\nopen_end = "1900-02-29"', "`open_end` '1900-02-29' is no date: write it as 1900-01-01"),
        ('open_end = "0001-01-01T00:00:00+05:00"', "`open_end` '0001-01-01T00:00:00+05:00' is no timestamp"),
        ('type = "timestamp_ntz"\nopen_end = 1970-01-02T00:00:00Z', "is no timestamp_ntz: write it as"),
        (
            'type = "int"\nvalidity = { column = "customer_id" }\nopen_end = 2147483648',
            ".history]: `open_end` '2147483648' is no int: write it as a whole number",
        ),
        (
            'first_load = "2026-01-01"\nopen_end = "2026-01-01"',
            ".history]: `open_end` 2026-01-01 is not later than `first_load` 2026-01-01",
        ),
        ('validity = "run"\ntype = "timestamp"', '`validity = "run"` needs `type = "date"`, and it is timestamp'),
        ('closed = true\ntype = "timestamp"', '`closed = true` needs `type = "date"`, and it is timestamp'),
        ('type = "bigint"', '`type = "bigint"` needs a column of numbers: `validity = { column = "…" }`'),
        ('valid_to = "Valid_From"', ".history]: two columns are called 'valid_from'"),
        ('previous_key = true\nvalid_to = "_previous_key"', ".history]: two columns are called '_previous_key'"),
        ('surrogate = "hash"\nis_current = "version_key"', ".history]: two columns are called 'version_key'"),
        ('surrogate_column = "k"', "`surrogate_column` names a column that is not there: set `surrogate`, too"),
        ('known_to = "k"', ".history]: `known_to` names a column that is not there: set `known = true`, too"),
        ('known = true\nknown_to = "valid_to"', ".history]: two columns are called 'valid_to'"),
    ],
)
def test_an_option_that_is_none_is_refused_with_what_may_stand_there(
    tmp_path: Path, words: str, found: str
) -> None:
    error = refusal(tmp_path, CUSTOMER, f'[tables."shop.customer".history]\n{words}\n')
    assert found in str(error.found)
    assert "lakeward.toml: the settings are not right" in error.what
    assert error.todo


@pytest.mark.parametrize(
    "words", ["[]", '["*", "email"]', "[1]", '"email"', '{ all_but = ["*"] }', '{ but = ["a"] }']
)
def test_columns_that_are_tracked_are_named_or_all_or_all_but_those_named(tmp_path: Path, words: str) -> None:
    error = refusal(tmp_path, CUSTOMER, f"track = {words}\n")
    assert error.found == (
        '[tables."shop.customer".track]: must be ["*"], the names of columns, or { all_but = ["…"] }'
    )


@pytest.mark.parametrize("words", ['track = ["email"]', "history = {}", "history.kinds = { email = 1 }"])
def test_what_is_for_a_history_is_refused_of_a_mirror(tmp_path: Path, words: str) -> None:
    key = words[:7].removesuffix(" =")
    error = refusal(tmp_path, CUSTOMER.replace('mode = "history"', words))
    assert error.found == (
        f'[tables."shop.customer"]: `{key}` is for a history: say `mode = "history"`, too, or leave it out'
    )


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ('mode = "mirror"', "the table is a mirror"),
        ('mode = "history"\nhistory.kinds = { email = 0 }', "columns are of kind 0 or 3"),
        ('mode = "history"\nhistory.validity = "run"', 'its `validity` is not "time"'),
    ],
)
def test_a_table_that_cannot_splice_snapshots_in_is_not_told_to(tmp_path: Path, words: str, found: str) -> None:
    said = f'{words}\nfull_loads = "snapshot"\nolder_snapshots = "splice"'
    error = refusal(tmp_path, CUSTOMER.replace('mode = "history"', said))
    assert error.what.startswith("shop.customer: `older_snapshots")
    assert found in str(error.found)


@pytest.mark.parametrize("words", ['older_snapshots = "skip"', 'load_settles = "2h"', "least_share = 0.2"])
def test_what_is_for_snapshots_is_refused_of_a_table_that_is_loaded_once(tmp_path: Path, words: str) -> None:
    key = words.split(maxsplit=1)[0]
    error = refusal(tmp_path, f"{CUSTOMER}{words}\n")
    said = f'`{key}` is for snapshots: say `full_loads = "snapshot"`, too, or leave it out'
    assert error.found == f'[tables."shop.customer"]: {said}'
    load(write(tmp_path, MEMORY, f"{CUSTOMER}{words}\n" + 'full_loads = "snapshot"\n'))


def test_defaults_say_of_snapshots_what_is_not_for_tables_that_are_loaded_once(tmp_path: Path) -> None:
    defaults = '[defaults]\nolder_snapshots = "skip"\nleast_share = 0.2\n'
    nightly = '[tables."shop.stock"]\nkey = ["id"]\ncolumns = { id = "int" }\nfull_loads = "snapshot"\n'
    configured = load(write(tmp_path, MEMORY, defaults, CUSTOMER, nightly))
    assert configured.dimension(NAME).snapshots is None
    found = configured.dimension(TableName("shop", "stock")).snapshots
    assert found == Snapshots(least_share=0.2, older=Older.SKIP)


@pytest.mark.parametrize(
    ("type_", "number", "most"),
    [("int", 2**31, 2**31 - 1), ("decimal(38,0)", 10**30, 2**63 - 1), ("decimal(3,0)", 1000, 999)],
)
@pytest.mark.parametrize("key", ["open_end", "first_load"])
def test_a_number_that_validity_columns_do_not_show_is_refused(
    tmp_path: Path, key: str, type_: str, number: int, most: int
) -> None:
    words = f'validity = {{ column = "n" }}\ntype = "{type_}"\n{key} = {number}\n'
    found = str(refusal(tmp_path, f'{CUSTOMER}[tables."shop.customer".history]\n{words}').found)
    assert f"`{key}` '{number}' is no {type_}" in found
    assert found.endswith(f" to {most}")


@pytest.mark.parametrize("type_", ["float", "double"])
def test_a_floating_key_has_no_one_text_to_be_shown_as_that_of_before(tmp_path: Path, type_: str) -> None:
    table = CUSTOMER.replace('"int"', f'"{type_}"')
    assert table != CUSTOMER
    error = refusal(tmp_path, f'{table}[tables."shop.customer".history]\nprevious_key = true\n')
    assert error.found == f"customer_id of the key is a {type_}, whose digits Java writes in several ways"
    assert error.todo == "Leave `previous_key` out."


def test_the_key_of_a_history_may_be_that_of_the_catalogue(tmp_path: Path) -> None:
    parts = f'[catalogue]\nkind = "file"\n{CUSTOMER.replace("key =", "# key =").replace(COLUMNS, "")}'
    configured = load(write(tmp_path, MEMORY, parts))
    columns = tuple(
        SourceColumn(name=name, written="integer", type=Type("int")) for name in ("customer_id", "email")
    )

    def said(*key: str) -> CatalogueAnswers:
        return CatalogueAnswers(answers={NAME: [Answer(0, SourceTable(name=NAME, columns=columns, key=key))]})

    assert configured.dimension(NAME).key == (), "it has not answered yet"
    assert configured.with_answers(said("customer_id")).dimension(NAME).key == ("customer_id",)
    with pytest.raises(ConfigError) as refused:
        configured.with_answers(said()).dimension(NAME)
    assert refused.value.found == "a history needs a key"


SAY_WHICH = "It may be int or bigint or decimal(10,0): say which as `type`."


@pytest.mark.parametrize(
    ("words", "found", "todo"),
    [
        ('track = ["emial"]', "no column emial", "Did you mean 'email'?"),
        ("history.kinds = { customer_id = 1 }", "customer_id is of the key", None),
        (
            'track = ["email", "customer_id"]',
            "customer_id is of the key",
            "Leave it out of `track` and `kinds`: with another key it is another row.",
        ),
        ('history.validity = { column = "email" }', "email, which dates its versions, is a string", None),
        ('history.valid_from = "email"', "two columns email", None),
        ('history.validity.column = "customer_id"', "valid_from is a timestamp", SAY_WHICH),
        (
            'history.validity.column = "customer_id"\nhistory.type = "decimal(9,0)"',
            "valid_from is a decimal(9,0)",
            SAY_WHICH,
        ),
    ],
)
def test_what_declared_columns_do_not_allow_is_refused(
    tmp_path: Path, words: str, found: str, todo: str | None
) -> None:
    error = refusal(tmp_path, CUSTOMER, f"{words}\n")
    assert error.what == "shop.customer: its history cannot be kept like this"
    assert (error.found, error.todo) == (found, todo or error.todo)


def test_columns_that_the_files_bring_are_not_asked_for(tmp_path: Path) -> None:
    bare = CUSTOMER.replace(COLUMNS, 'track = ["email"]')
    found = load(write(tmp_path, MEMORY, bare)).dimension(NAME).history
    assert found == History(track=Track(frozenset({"email"}), but=False))


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ('track = ["mail"]', "track"),
        ('track = { all_but = ["mail"] }', "track"),
        ("history.kinds = { mail = 1 }", "history.kinds"),
        ('history.validity = { column = "mail" }', "history.validity"),
    ],
)
def test_a_column_that_was_renamed_is_not_meant_by_its_old_name(tmp_path: Path, words: str, key: str) -> None:
    bare = CUSTOMER.replace(COLUMNS, f'schema.rename = {{ mail = "email" }}\n{words}')
    error = refusal(tmp_path, bare)
    assert error.what == (
        f"shop.customer: `{key}` names 'mail', which is called 'email' now, as `schema.rename` says"
    )
