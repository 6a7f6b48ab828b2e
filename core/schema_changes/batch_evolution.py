"""How a batch changes the columns of its table, and the error where no policy allows the change."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from lakeward.core.checks.batch_checks import cannot_rename, cannot_rename_within, refuse_names_alike
from lakeward.core.dimension import Dimension
from lakeward.core.errors import SchemaConflict
from lakeward.core.merge.facts import BatchFacts
from lakeward.core.schema import Schema
from lakeward.core.schema_changes.evolution import Evolution, Kind, evolve

_NUMBERS: Final = frozenset({"int", "bigint", "decimal"})
"""The types whose values a decimal holds without loss."""
_FLOATING: Final = frozenset({"float", "double"})


def evolution_of(dimension: Dimension, facts: BatchFacts, stored: Schema | None) -> Evolution:
    """Return how the columns of a table change with a batch; `stored` is its schema, None if it does not exist.

    Raises SchemaConflict where the columns differ and no policy allows it.
    """
    declared = dimension.schema if len(dimension.schema) else facts.schema
    evolution = evolve(stored or declared, facts.schema, dimension.policies, dimension.key)
    in_object = f" in {facts.objects[0].object.name}" if facts.objects else ""
    for change in evolution.refused:
        if change.kind is Kind.RENAME and change.is_nested:
            raise cannot_rename_within(dimension.name, change.path, change.to)
        if change.kind is Kind.RENAME:
            raise cannot_rename(dimension, change, stored, in_object)
    if evolution.refused:
        raise SchemaConflict(
            f"{dimension.name}: the columns of the source and of the table differ",
            found="; ".join(map(str, evolution.refused)) + in_object,
            todo=f"Nothing of this batch was applied; other tables go on. {_advice(dimension, evolution)}",
        )
    refuse_names_alike(dimension, evolution.schema.columns)
    return evolution


def _advice(dimension: Dimension, evolution: Evolution) -> str:
    """Return what to do where a table cannot follow. No policy gives an existing column another type."""
    name = dimension.name
    retyped = [change for change in evolution.refused if change.kind is Kind.RETYPE]
    if retyped:
        types = {type_.name for change in retyped for type_ in (change.before, change.after) if type_ is not None}
        return (
            "No table follows another type in place. Declare the column under "
            f'[tables."{name}".columns] as a type that both are read as without loss: {_common_type(types)}. Then '
            f"drop the table with {name.table}__changes and {name.table}__quarantine, "
            "and run: all files that are there are applied anew, each read as that type. Or keep these files back, "
            'or their rows in quarantine: `schema.incompatible = "quarantine"`.'
        )
    if all(change.kind is Kind.NARROW for change in evolution.refused):
        return (
            f'Let the table keep its own, wider type: `narrow = "evolve"` under [tables."{name}".schema]. Or keep '
            "these files back."
        )
    return (
        "Declare the columns as they are now under [tables], let the table follow "
        "(docs/explanation/schema-changes.md), or keep these files back."
    )


def _common_type(types: Collection[str]) -> str:
    """Return the type that holds the values of all of these types, with what it costs where none is exact."""
    if _NUMBERS.issuperset(types):
        return "the decimal with the most digits on both sides of the point (docs/reference/types.md#from-parquet)"
    if not (_NUMBERS | _FLOATING).issuperset(types):
        return "`string`, where its files are text"
    return (
        "`string`, where its files are text, or there, with loss, `double`: it is exact for whole numbers up to "
        "9,007,199,254,740,992, and keeps 15 digits of others. No type holds both of files of Parquet: let their "
        "writer write the column as a double, or as a decimal, in all of them"
    )
