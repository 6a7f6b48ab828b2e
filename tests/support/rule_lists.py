"""Random rules and rows, to compare implementations of rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

from lakeward.core.errors import ConfigError
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.core.shaping.column_rules import (
    TEXT,
    TIME_PARTS,
    WITH_TEXT,
    Cast,
    DatePart,
    Default,
    Hash,
    Mask,
    Rename,
    Replace,
    Rule,
    Trim,
)
from lakeward.core.shaping.file_rules import NullShare, RowCount
from lakeward.core.shaping.quality_rules import (
    Action,
    InSet,
    Length,
    NotNull,
    Pattern,
    QualityRule,
    Range,
    Unique,
    check,
)
from lakeward.core.shaping.reshaping_rules import Concat, Constant, Drop, Flatten, Keep, Split
from lakeward.core.shaping.shape import shape

DATE_PARTS = ("year", "quarter", "month", "week", "day", "day_of_week", "day_of_year")
TYPES = {
    "id": "int",
    "word": "string",
    "list": "string",
    "digits": "string",
    "number": "int",
    "big": "bigint",
    "amount": "decimal(8,2)",
    "ratio": "double",
    "flag": "boolean",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "nest": "struct<x: int, y: string>",
}
SOURCE = Schema(tuple(Column(name, parse_type(type_)) for name, type_ in TYPES.items()))
SECRETS = {"env:PEPPER": b"0123456789abcdef", "env:LONG": b"k" * 100}

D = Decimal
CELLS: Mapping[str, Sequence[Any]] = {
    "word": [None, "", " ", "a", "  a b ", "é😀x", "O'Hara\\", 'say "yes"', "x$1", "xxabc", "tab\there\n"],
    "list": [None, "", "a", "a,b", "a,  b", "a, b,c", ",", ",,", "Berlin, Germany", "a,b,c,d"],
    "digits": [None, "", "7", " 7 ", "-07", "7.5", "7.50", "x", "99999999999", "true", "2026-02-28", "2026-02-30"],
    "number": [None, 0, 1, -1, 7, 2**31 - 1, -(2**31)],
    "big": [None, 0, 12, 2**63 - 1, -(2**63)],
    "amount": [None, D("0.00"), D("1.50"), D("-999999.99"), D("100.00")],
    "ratio": [None, 0.0, 1.5, -2.25, float("inf"), float("nan")],
    "flag": [None, True, False],
    "day": [None, date(2026, 2, 28), date(1970, 1, 1), date(2024, 12, 30), date(2021, 1, 3)],
    "at": [None, datetime(2026, 2, 28, 23, 59, 58, 120000, UTC), datetime(1969, 12, 31, tzinfo=UTC)],
    "local": [None, datetime(2024, 12, 30), datetime(2026, 6, 1, 7, 8, 9, 1)],
    "nest": [None, {"x": 1, "y": "a"}, {"x": None, "y": " b "}],
}
PATTERNS = [r",\s*", r"\s+", "a", "[ab]", r"(x)(.)", r"\d+", r"[$,]", "é"]
VALUES = ["", "0", "7", "1.50", "true", "2026-02-28", "a", "2026-01-01 10:00:00"]
NAMES = ["one", "two", "three", "Four", "odd `name`"]


def cells(random: Random, key: int) -> dict[str, Any]:
    return {"id": key, **{name: random.choice(values) for name, values in CELLS.items()}}


def rules(random: Random, count: int) -> tuple[Rule, ...]:
    """Return rules that fit the columns, in sequence. The key `id` stays."""
    drawn: list[Rule] = []
    while len(drawn) < count:
        schema = shape(drawn, SOURCE).schema
        rule = random.choice(MAKERS)(random, schema)
        try:
            if shape([*drawn, rule], SOURCE).schema.find("id") and "id" not in _changed(rule):
                drawn.append(rule)
        except ConfigError:
            continue
    return tuple(drawn)


def _changed(rule: Rule) -> set[str]:
    return {getattr(rule, "column", "")} if getattr(rule, "to", None) is None else set()


def _some(random: Random, schema: Schema, *types: str) -> str:
    fit = [column.name for column in schema if column.type.name in types]
    return random.choice(fit or list(schema.names))


def _to(random: Random) -> str | None:
    return random.choice([None, None, *NAMES])


Maker = Callable[[Random, Schema], Rule]
MAKERS: Sequence[Maker] = [
    lambda r, s: Rename(column=r.choice(s.names), to=r.choice(NAMES)),
    lambda r, s: Cast(column=_some(r, s, "string"), type=parse_type(r.choice(TARGETS)), to=_to(r)),
    lambda r, s: Cast(column=r.choice(s.names), type=TEXT, to=_to(r)),
    lambda r, s: Cast(column=_some(r, s, *WITH_TEXT), type=parse_type(r.choice(TARGETS)), zone="Asia/Tokyo"),
    lambda r, s: Trim(
        column=_some(r, s, "string"),
        characters=r.choice([" ", "xa", " ,"]),
        side=r.choice(["both", "left", "right"]),
    ),
    lambda r, s: Replace(
        column=_some(r, s, "string"), pattern=r.choice(PATTERNS), by=r.choice(["", "-", "$$", "\\", "$"])
    ),
    lambda r, s: Replace(column=_some(r, s, "string"), pattern="(x)(.)", by=r.choice(["$2$1", "<$1>", "$12"])),
    lambda r, s: Default(column=r.choice(s.names), value=r.choice(VALUES), to=_to(r)),
    lambda r, s: Split(
        column=_some(r, s, "string"),
        pattern=r.choice(PATTERNS),
        into=tuple(r.sample(NAMES, r.choice([1, 2, 3]))),
        rest=r.choice(["keep", "drop"]),
    ),
    lambda r, s: Concat(
        columns=(_some(r, s, *WITH_TEXT), _some(r, s, *WITH_TEXT)),
        to=r.choice(NAMES),
        separator=r.choice(["", ", ", "'"]),
        nulls=r.choice(["null", "skip"]),
    ),
    lambda r, s: Constant(to=r.choice(NAMES), value=r.choice(VALUES), type=parse_type(r.choice(TARGETS))),
    lambda r, s: Drop(columns=(r.choice(s.names),)),
    lambda r, s: Keep(columns=("id", *r.sample(s.names, min(6, len(s))))),
    lambda r, s: Hash(column=_some(r, s, *WITH_TEXT), key=r.choice(list(SECRETS)), to=_to(r)),
    lambda r, s: Mask(column=_some(r, s, "string"), keep=r.choice([0, 1, 2, 5]), character=r.choice("*#'")),
    lambda r, s: DatePart(
        column=_some(r, s, "date", "timestamp", "timestamp_ntz"), part=r.choice(DATE_PARTS + TIME_PARTS), to=_to(r)
    ),
    lambda r, s: Flatten(column=_some(r, s, "struct"), prefix=r.choice(["", "nest_"])),
]
TARGETS = ["string", "int", "bigint", "decimal(5,1)", "boolean", "date", "timestamp", "timestamp_ntz", "double"]


def quality(random: Random, schema: Schema, count: int) -> tuple[QualityRule, ...]:
    """Return quality rules that fit the columns of a table."""
    drawn: list[QualityRule] = []
    while len(drawn) < count:
        name, action = random.choice(schema.names), random.choice(list(Action))
        values = tuple(random.sample(VALUES, 2))
        rule: QualityRule = random.choice(
            [
                NotNull(of=(name,), action=action),
                InSet(column=name, values=values, action=action),
                Range(column=name, least=values[0], most=random.choice([None, values[1]]), action=action),
                Pattern(column=name, pattern=random.choice([*PATTERNS, "a|b", ".*"]), action=action),
                Length(column=name, least=random.choice([0, 2]), most=random.choice([None, 3]), action=action),
                Unique(action=action),
                RowCount(least=1),
                NullShare(column=name, most=1.0),
            ]
        )
        try:
            check([rule], schema, ("id",))
        except ConfigError:
            continue
        drawn.append(rule)
    return tuple(drawn)
