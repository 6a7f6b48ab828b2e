"""Checks that refuse batches whose options do not fit a history, or a table that is to become one."""

from __future__ import annotations

from collections.abc import Iterable

from lakeward.core.dimension import Dimension, Mode
from lakeward.core.errors import ConfigError, SchemaConflict
from lakeward.core.history.stored_options import SOFT, differences
from lakeward.core.merge.facts import BatchFacts
from lakeward.core.progress import Progress
from lakeward.core.schema_changes.evolution import Evolution
from lakeward.core.text.numbers import format_count


def refuse_history(dimension: Dimension, facts: BatchFacts, evolution: Evolution) -> None:
    """Raise ConfigError where the options of a history, or others of its table, cannot be kept.

    A column that rules make of several others is a cell of a version like any other, as long as rows come complete.
    For a partial row it would have to be computed again within the fold, because it may open a version.
    """
    if dimension.history is None:
        return
    dimension.history.check(str(dimension.name), evolution.schema, dimension.key)
    if dimension.is_soft:
        raise _cannot(
            dimension, "its deletes are soft", "A version that ended is kept anyway: leave `deletes` out."
        )
    lacking = [name for name in evolution.absent if name in facts.recomputed.columns]
    if parts := sorted(facts.recomputed.must):
        found = f"rules make {', '.join(parts)} of several columns, of which an update may send some alone"
        todo = "Nothing was applied. Leave those rules out, let updates send whole rows, or keep a mirror."
        raise _cannot(dimension, found, todo)
    if lacking:
        found = f"rules make {', '.join(lacking)} of several columns, and the batch lacks some of them"
        todo = "Nothing was applied. Let the source write those columns again, or leave those rules out: then what "
        raise _cannot(dimension, found, f"{todo}was made stays as it is.")


def _cannot(dimension: Dimension, found: str, todo: str) -> ConfigError:
    return ConfigError(f"{dimension.name}: its history cannot be kept like this", found=found, todo=todo)


def refuse_other_history(dimension: Dimension, progress: Progress) -> None:
    """Raise SchemaConflict where the options of a history differ from those of its stored versions."""
    if not progress.batch:
        return
    history, stored = dimension.history, None if progress.history == SOFT else progress.history
    if history is None or stored is None:
        if (history is None) != (stored is None):
            raise _other_mode(dimension, progress)
        return
    changed = list(differences(stored, history, dimension.key, dimension.policies.renames))
    if changed:
        before = ", ".join(f"{name}: {value}" for name, value, _ in changed)
        now = ", ".join(f"{name}: {value}" for name, _, value in changed)
        raise SchemaConflict(
            f"{dimension.name}: its history cannot be kept in another way",
            found=f"its versions were made with {before}; the settings say {now}",
            todo=f"Nothing of the table was changed. {_put_back(name for name, _, _ in changed)}, or "
            "drop the table and its side tables, and load it anew (docs/how-to/reload.md#dropping-a-table).",
        )


def _put_back(changed: Iterable[str]) -> str:
    """Return which settings to restore.

    The zone is that in which times are read, and its present value may be right.
    """
    if "source_zone" not in changed:
        return "Set `track` and `history` as they were"
    return (
        "Days are cut in the zone in which the times of the table are read: its own `source_zone` or, where it has "
        "none, that of [source], which was the only one for days in earlier versions of lakeward. Set what differs "
        "as it was"
    )


def no_versions(table: object, purpose: str) -> ConfigError:
    """Return the error for a question about versions that is asked of a mirror."""
    return ConfigError(
        f"{table} is a mirror: it has no versions to {purpose}",
        found="it keeps the newest of each row alone",
        todo='A table with `mode = "history"` keeps them (docs/explanation/history.md).',
    )


def _other_mode(dimension: Dimension, progress: Progress) -> SchemaConflict:
    """Return the error that a mirror cannot become a history, nor a history a mirror."""
    stored, wanted = Mode.MIRROR, Mode.HISTORY
    found = (
        f"it has the newest of each of {format_count(progress.rows, 'row')}, and how they were before is not known"
    )
    if dimension.history is None:
        stored, wanted = wanted, stored
        found = f"it has {format_count(progress.rows, 'version')}, which a mirror has not"
    return SchemaConflict(
        f"{dimension.name}: a {stored.value} cannot become a {wanted.value}",
        found=found,
        todo=f"Nothing of the table was changed. Set `mode` to `{stored.value}`, as it was, or "
        "drop the table and its side tables, and load it anew (docs/how-to/reload.md#dropping-a-table).",
    )
