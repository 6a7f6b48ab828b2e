"""Random schemas, their changes and rows, and the rows that a table must hold after a change, in plain Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from lakeward.core.schema import Column, Schema, Type

KEY = Column("id", Type("bigint"))
Row = Mapping[str, Any]

_DECIMAL = Type("decimal", 9, 2)
_WIDER = {Type("int"): Type("bigint"), Type("float"): Type("double"), _DECIMAL: Type("decimal", 30, 2)}
_SCALARS = [*_WIDER, *_WIDER.values(), Type("string"), Type("boolean"), Type("date")]
_MOST = {"int": 2**31 - 1, "bigint": 2**63 - 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The columns of a table, those of a later file, and the renamed ones."""

    before: Schema
    after: Schema
    renames: Mapping[str, str] = field(default_factory=dict)

    def kept(self, row: Row) -> Row:
        """Return an old row with the new names of its columns."""
        return {self.renames.get(name, name): value for name, value in row.items()}

    def is_whole(self, row: Row) -> bool:
        """Return True if a row of the later file lacks no column and no struct field of the table."""
        return _has_all([Column(self.renames.get(c.name, c.name), c.type) for c in self.before], row)


def _nested(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    keys = st.sampled_from([Type("int"), Type("string")])
    return (
        inner.map(lambda type_: Type("list", parts=(Column("element", type_),)))
        | st.tuples(keys, inner).map(
            lambda pair: Type("map", parts=(Column("key", pair[0]), Column("value", pair[1])))
        )
        | st.lists(inner, min_size=1, max_size=3).map(
            lambda parts: Type("struct", parts=tuple(Column(f"f{i}", part) for i, part in enumerate(parts)))
        )
    )


TYPES = st.recursive(st.sampled_from(_SCALARS), _nested, max_leaves=5)
STRUCTS = st.lists(TYPES, min_size=1, max_size=3).map(
    lambda parts: Type("struct", parts=tuple(Column(f"f{i}", part) for i, part in enumerate(parts)))
)


@st.composite
def _followed(draw: st.DrawFn, type_: Type, *, may_lack: bool) -> Type:
    """Draw a legal change of a type: wider, with more fields in any order, or in structs with fewer."""
    match type_.name:
        case "struct":
            stays = [part for part in type_.parts if not (may_lack and draw(st.integers(0, 3)) == 0)]
            parts = [Column(part.name, draw(_followed(part.type, may_lack=may_lack))) for part in stays]
            new = [Column(f"new{i}", draw(TYPES)) for i in range(draw(st.integers(0 if parts else 1, 2)))]
            return replace(type_, parts=tuple(draw(st.permutations([*parts, *new]))))
        case "list" | "map":
            *key, last = type_.parts
            return replace(type_, parts=(*key, Column(last.name, draw(_followed(last.type, may_lack=False)))))
        case _:
            return _WIDER.get(type_, type_) if draw(st.booleans()) else type_


@st.composite
def _broken(draw: st.DrawFn, type_: Type, *, is_element: bool = False) -> Type:
    """Draw an illegal change of a type: narrower, incompatible, or a list or map with a field less."""
    match type_.name:
        case "struct" if is_element and len(type_.parts) > 1 and draw(st.booleans()):
            gone = draw(st.sampled_from(type_.parts))
            return replace(type_, parts=tuple(part for part in type_.parts if part is not gone))
        case "struct":
            first, *rest = type_.parts
            wrong = draw(_broken(first.type, is_element=is_element))
            return replace(type_, parts=(Column(first.name, wrong), *rest))
        case "map" if draw(st.booleans()):
            return replace(type_, parts=(Column("key", Type("date")), type_.parts[1]))
        case "list" | "map":
            *key, last = type_.parts
            return replace(type_, parts=(*key, Column(last.name, draw(_broken(last.type, is_element=True)))))
        case _:
            narrower = [narrow for narrow, wide in _WIDER.items() if wide == type_]
            others = [Type("string") if type_.name != "string" else Type("int")]
            return draw(st.sampled_from([*narrower, *others]))


@st.composite
def legal(
    draw: st.DrawFn, least: int = 1, most: int = 5, *, may_lack: bool = True, renames_columns: bool = True
) -> Drift:
    """Draw a change that a table follows with its default policies.

    With `may_lack`, fields of structs may be missing after it. With `renames_columns`, columns may have
    new names.
    """
    before, after, renames = [KEY], [KEY], {}
    fates = ["stays", "changes", "is new", "goes", *(["is renamed"] if renames_columns else [])]
    for place in range(draw(st.integers(least, most))):
        name, type_ = f"c{place}", draw(TYPES | STRUCTS)
        fate = draw(st.sampled_from(fates))
        if fate != "is new":
            before.append(Column(name, type_))
        if fate == "is renamed":
            renames[name] = name = f"n{place}"
        if fate != "goes":
            after.append(
                Column(name, type_ if fate in ("stays", "is new") else draw(_followed(type_, may_lack=may_lack)))
            )
    order = draw(st.permutations(after))
    return Drift(before=Schema(tuple(before)), after=Schema(tuple(order)), renames=renames)


def with_texts_as_keys(drift: Drift) -> Drift:
    """Return a change with text keys in all maps that have number keys."""
    before, after = (
        Schema(tuple(Column(column.name, _with_texts_as_keys(column.type)) for column in schema))
        for schema in (drift.before, drift.after)
    )
    return replace(drift, before=before, after=after)


def _with_texts_as_keys(type_: Type) -> Type:
    parts = [Column(part.name, _with_texts_as_keys(part.type)) for part in type_.parts]
    if type_.name == "map" and parts[0].type.name == "int":
        parts[0] = Column("key", Type("string"))
    return replace(type_, parts=tuple(parts))


@st.composite
def illegal(draw: st.DrawFn) -> Drift:
    """Draw a change that is legal except for one column."""
    drift = draw(legal())
    type_ = draw(TYPES | STRUCTS)
    wrong = Column("wrong", draw(_broken(type_)))
    return replace(
        drift, before=Schema((*drift.before, Column("wrong", type_))), after=Schema((*drift.after, wrong))
    )


def values(type_: Type) -> st.SearchStrategy[Any]:
    """Return values of a type: NULL, the greatest and the least among them."""
    return st.none() | _values(type_)


def _values(type_: Type) -> st.SearchStrategy[Any]:
    match type_.name:
        case "int" | "bigint":
            most = _MOST[type_.name]
            return st.sampled_from([0, 1, most, -most - 1])
        case "float":
            return st.sampled_from([0.0, -1.5, 2.0**100])
        case "double":
            return st.sampled_from([0.1, -1.5, 2.0**1000])
        case "decimal":
            digits = "9" * (type_.precision - type_.scale) + "." + "9" * type_.scale
            return st.sampled_from([Decimal("0.00"), Decimal(digits), Decimal(f"-{digits}")])
        case "string":
            return st.sampled_from(["", "a", "ä'\"\\"])
        case "boolean":
            return st.booleans()
        case "date":
            return st.integers(0, 30_000).map(lambda days: date(1970, 1, 1) + timedelta(days))
        case "list":
            return st.lists(values(type_.parts[0].type), max_size=2)
        case "map":
            keys = st.just(7) if type_.parts[0].type.name == "int" else st.just("k")
            return st.dictionaries(keys, values(type_.parts[1].type), max_size=1)
        case _:
            return st.fixed_dictionaries({part.name: values(part.type) for part in type_.parts})


def row_of(schema: Schema, key: int) -> st.SearchStrategy[Row]:
    """Return rows of a schema with that key."""
    cells = {column.name: values(column.type) for column in schema if column != KEY}
    return st.fixed_dictionaries({KEY.name: st.just(key), **cells})


def fits(value: Any, type_: Type) -> bool:
    """Return True if a type can hold a value without loss: an unknown field may be there if it has no value."""
    if value is None:
        return True
    parts = {part.name: part.type for part in type_.parts}
    match type_.name:
        case "int" | "bigint":
            return type(value) is int and abs(value) <= _MOST[type_.name] + 1
        case "float" | "double":
            return isinstance(value, float) and (type_.name == "double" or value in (0.0, -1.5, 2.0**100))
        case "decimal":
            digits = type_.precision - type_.scale
            return isinstance(value, Decimal) and value.copy_abs() < 10**digits
        case "list":
            return isinstance(value, list) and all(fits(item, parts["element"]) for item in value)
        case "map":
            return isinstance(value, dict) and all(fits(item, parts["value"]) for item in value.values())
        case "struct":
            values = {name: part for name, part in value.items() if part is not None}
            return all(name in parts and fits(part, parts[name]) for name, part in values.items())
        case name:
            return isinstance(value, {"string": str, "boolean": bool, "date": date}[name])


def stored_row(row: Row, schema: Schema) -> Row:
    """Return a row as a table of that schema holds it: fields by name, missing ones NULL."""
    return {column.name: _held(row.get(column.name), column.type) for column in schema}


def _held(value: Any, type_: Type) -> Any:
    if value is None:
        return None
    match type_.name:
        case "list":
            return [_held(item, type_.parts[0].type) for item in value]
        case "map":
            return {key: _held(item, type_.parts[1].type) for key, item in dict(value).items()}
        case "struct":
            return {part.name: _held(value.get(part.name), part.type) for part in type_.parts}
        case _:
            return value


def rows_after(drift: Drift, schema: Schema, then: Sequence[Row], now: Sequence[Row]) -> list[Row]:
    """Return the rows of a table after rows of the later file replaced old ones."""
    rows = {row[KEY.name]: stored_row(drift.kept(row), schema) for row in then}
    for row in now:
        then_, sent_row = rows.get(row[KEY.name], stored_row({}, schema)), stored_row(row, schema)
        cells = {
            c.name: _kept(then_[c.name], row[c.name], sent_row[c.name], c.type) for c in schema if c.name in row
        }
        rows[row[KEY.name]] = {**then_, **cells}
    return [rows[key] for key in sorted(rows)]


def _has_all(columns: Sequence[Column], sent: Row) -> bool:
    """Return True if a row or struct has all columns or fields, at all depths."""
    return all(c.name in sent and _is_whole(c.type, sent[c.name]) for c in columns)


def _is_whole(type_: Type, sent: Any) -> bool:
    return type_.name != "struct" or sent is None or _has_all(type_.parts, sent)


def _kept(then: Any, sent: Any, value: Any, type_: Type) -> Any:
    """Return a value as a table holds it, with stored values in struct fields that were not sent."""
    if type_.name != "struct" or sent is None or then is None:
        return value
    return {
        part.name: _kept(then[part.name], sent[part.name], value[part.name], part.type)
        if part.name in sent
        else then[part.name]
        for part in type_.parts
    }


def as_arrow(value: Any) -> Any:
    """Return a value with maps as pairs, because their keys are no field names."""
    match value:
        case dict() if value and set(value) <= {7, "k"}:
            return [(key, as_arrow(item)) for key, item in value.items()]
        case dict():
            return {name: as_arrow(item) for name, item in value.items()}
        case list():
            return [as_arrow(item) for item in value]
        case _:
            return value
