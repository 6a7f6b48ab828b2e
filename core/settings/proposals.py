"""Settings that are proposed from a sample of texts, for a person to confirm.

A proposed type must not lose data: each text of the sample must be what its value is written as, else the column
stays a text. So `007` and `+5` are no numbers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lakeward.core.dimension import TableName
from lakeward.core.schema import Type
from lakeward.core.text.values import MISFIT, from_text

TEXT: Final = Type("string")
DECIMAL_DIGITS: Final = 38
"""The precision of proposed decimals, the greatest there is: the sample need not have the greatest number."""

_WHOLE: Final = re.compile(r"-?(0|[1-9]\d*)", re.ASCII)
_DECIMAL: Final = re.compile(r"-?(0|[1-9]\d*)\.(\d+)", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d{1,6})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedColumn:
    """A column of files; `type` is None where the files have types themselves."""

    name: str
    type: Type | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedTable:
    """A table found in files: what it was found by, its columns, and its key if a column name suggests one.

    `cautions` are what a person must check before the first run. `has_names` says that the names of the columns are
    from the files. `source` are settings of the source for this table.
    """

    name: TableName
    evidence: str
    columns: tuple[ProposedColumn, ...] = ()
    key: tuple[str, ...] = ()
    has_names: bool = True
    cautions: tuple[str, ...] = ()
    source: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a kind of source proposes for a folder: its settings besides `kind`, and the tables.

    `reasons` say, by key, why a setting is proposed. With `is_named` the files have names that only this source
    gives; such a proposal is preferred to one that accepts any files.
    """

    kind: str
    tables: Sequence[ProposedTable]
    settings: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    is_named: bool = True


def proposed_type(texts: Collection[str | None]) -> Type:
    """Return the narrowest type whose values are written exactly as these texts; NULL fits any type.

    >>> str(proposed_type(["1", "-20", None])), str(proposed_type(["007"])), str(proposed_type([None]))
    ('bigint', 'string', 'string')
    >>> str(proposed_type(["1.50", "2.125"])), str(proposed_type(["2026-11-21"])), str(proposed_type(["1.5", "x"]))
    ('decimal(38,3)', 'date', 'string')
    """
    values = [text for text in texts if text is not None]
    if not values:
        return TEXT
    if all(text in ("true", "false") for text in values):
        return Type("boolean")
    if all(_WHOLE.fullmatch(text) and text != "-0" for text in values):
        return _fits(values, Type("bigint")) or _fits(values, Type("decimal", DECIMAL_DIGITS, 0)) or TEXT
    if all(_WHOLE.fullmatch(text) or _DECIMAL.fullmatch(text) for text in values):
        return _decimal(values)
    for pattern, type_ in ((_DATE, Type("date")), (_TIME, Type("timestamp_ntz"))):
        if all(pattern.fullmatch(text) for text in values):
            return _fits(values, type_) or TEXT
    return TEXT


def _decimal(texts: Sequence[str]) -> Type:
    scale = max(len(text.partition(".")[2]) for text in texts)
    return _fits(texts, Type("decimal", DECIMAL_DIGITS, scale)) or TEXT if scale <= DECIMAL_DIGITS else TEXT


def _fits(texts: Sequence[str], type_: Type) -> Type | None:
    return None if any(from_text(text, type_) is MISFIT for text in texts) else type_


def proposed_key(table: str, columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> tuple[str, ...]:
    """Return the column whose name says that it is the key, if its values in the sample are unique and present.

    >>> proposed_key("customers", ["name", "customer_id"], [("Ann", "1"), ("Bob", "2")])
    ('customer_id',)
    >>> proposed_key("customers", ["id"], [("1",), ("1",)]), proposed_key("customers", ["id"], [])
    ((), ())
    """
    stem = table.lower()
    stems = {stem, stem.removesuffix("s"), stem.removesuffix("es")}
    wanted = ["id", *sorted(f"{name}{suffix}" for name in stems for suffix in ("_id", "id", "_key", "_no"))]
    index_by_name = {column.lower(): index for index, column in enumerate(columns)}
    indexes = [index_by_name[column] for column in wanted if column in index_by_name]
    return next(((columns[index],) for index in indexes if _is_unique([row[index] for row in rows])), ())


def _is_unique(values: Sequence[str | None]) -> bool:
    return bool(values) and None not in values and "" not in values and len({*values}) == len(values)
