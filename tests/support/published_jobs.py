"""The logic of published jobs in a few lines each, with its source.

Each is the logic of a sample that people copy, or of a defect that
users met. `test_published_defects.py` compares their tables with the correct ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import md5
from typing import NamedTuple

Text = str | None


class Change(NamedTuple):
    """A change as DMS writes it: `op` is I, U or D, `at` the commit time."""

    op: str
    at: int
    id: int
    name: Text = None
    city: Text = None

    @property
    def cells(self) -> tuple[Text, Text]:
        """The columns besides the key."""
        return self.name, self.city


Rows = Mapping[int, tuple[Text, Text]]
Job = Callable[[Rows, Sequence[Change]], Rows]


def merge_the_newest(rows: Rows, batch: Sequence[Change]) -> Rows:
    """Keep the newest change of each key; MATCHED and D: delete; MATCHED: update; NOT MATCHED: insert.

    AWS Big Data Blog, "Implement a CDC-based UPSERT in a data lake using Apache Iceberg and
    AWS Glue". The same came of Hudi's payload for DMS (apache/hudi#2057, HUDI-802).
    """
    merged = dict(rows)
    for change in {change.id: change for change in batch}.values():
        if change.id in rows and change.op == "D":
            del merged[change.id]
        else:
            merged[change.id] = change.cells
    return merged


def merge_by_operation(rows: Rows, batch: Sequence[Change]) -> Rows:
    """MATCHED and D: delete; MATCHED and U: update; NOT MATCHED and I: insert; nothing else.

    The MERGE that most tutorials show; in part also the sample of the AWS Big Data Blog,
    "Automate replication of relational sources into a transactional data lake with Apache
    Iceberg and AWS Glue", which inserts no row of an update.
    """
    merged = dict(rows)
    for change in {change.id: change for change in batch}.values():
        if change.id in rows and change.op == "D":
            del merged[change.id]
        elif (change.id in rows and change.op == "U") or (change.id not in rows and change.op == "I"):
            merged[change.id] = change.cells
    return merged


def one_operation_after_another(rows: Rows, batch: Sequence[Change]) -> Rows:
    """Append all inserts of a batch, then merge all updates, then all deletes.

    mfoglino/glue-datalake-s3-tables, `cdc_processing.py`.
    """
    merged = dict(rows)
    merged |= {change.id: change.cells for change in batch if change.op == "I"}
    merged |= {change.id: change.cells for change in batch if change.op == "U" and change.id in merged}
    deleted = {change.id for change in batch if change.op == "D"}
    return {key: cells for key, cells in merged.items() if key not in deleted}


def update_what_hashes_differently(rows: Rows, batch: Sequence[Change]) -> Rows:
    """Skip a row with an unchanged hash of its joined texts, with '' for NULL.

    smart-data-lake/smart-data-lake#110 (values that changed places, NULLs left out); dbt's
    documentation of `dbt_scd_id` (`coalesce(cast(… as string), '')`).
    """

    def row_hash(cells: Sequence[Text]) -> str:
        return md5("".join(cell or "" for cell in cells).encode(), usedforsecurity=False).hexdigest()

    changed = {c.id: c.cells for c in batch if c.id not in rows or row_hash(rows[c.id]) != row_hash(c.cells)}
    return {**rows, **changed}


def append_then_bookmark(lake: list[Change], batches: Sequence[Sequence[Change]], bookmark: int) -> None:
    """Append the rows after the bookmark, which is stored elsewhere and moved afterwards.

    Glue job bookmarks (`job.commit()` after the write); apache/iceberg#15710 and #16282.
    """
    for batch in batches[bookmark:]:
        lake.extend(batch)


def commit_for_all(
    tables: Mapping[str, Callable[[int], None]], bookmark: int, arrived: int
) -> tuple[int, list[str]]:
    """Update one table after the other, list failed ones, and move the bookmark of the job.

    AWS Big Data Blog, "Automate replication of relational sources …": `errored_table_list.append`,
    `continue`, and after the loop one `job.commit()`.
    """
    failed = []
    for name, bring_up_to_date in tables.items():
        try:
            bring_up_to_date(bookmark)
        except OSError:
            failed.append(name)
    return arrived, failed


MERGE = """
    MERGE INTO {table} t
    USING (
        SELECT * FROM (SELECT *, max(at) OVER (PARTITION BY id) AS newest FROM {batch}) WHERE at = newest
    ) s
    ON t.id = s.id
    WHEN MATCHED AND s.Op = 'D' THEN DELETE
    WHEN MATCHED THEN UPDATE SET t.name = s.name, t.at = s.at
    WHEN NOT MATCHED THEN INSERT (id, name, at) VALUES (s.id, s.name, s.at)
"""
"""`merge_the_newest` as that blog has it: of several changes at the newest time, all are kept."""
