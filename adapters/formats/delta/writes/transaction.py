"""Transactions of Delta: what is read of the table's last batch, and what a commit says of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakeward.adapters.formats.delta.java import Jvm
from lakeward.adapters.formats.delta.metadata.commit_info import said_by
from lakeward.adapters.formats.delta.metadata.progress import APP, PROGRESS
from lakeward.core.progress import Progress


def read_batch(jvm: Jvm, transaction: Any, snapshot: Any) -> int:
    """Return the last batch that a table has seen, -1 before the first; a commit of another one is a conflict then.

    Delta's own checksum of the version says it, where it has one; `txnVersion` needs a job of Spark for it.
    """
    summed = snapshot.checksumOpt()
    known = summed.get().setTransactions() if summed.isDefined() else jvm.none
    if not known.isDefined():
        return int(transaction.txnVersion(APP))
    getattr(transaction.readTxn(), "$plus$eq")(APP)  # as `txnVersion` does
    return next((int(one.version()) for one in jvm.items(known.get()) if str(one.appId()) == APP), -1)


def operation_of(jvm: Jvm, batch: int, *, changes_columns: bool) -> Any:
    """Return what Delta is told that the commit of a batch is.

    After an update of a stream it counts the table's files on from the last version; after a manual one, which may
    change the columns of partitions, too, it counts all of them by a job of Spark.
    """
    if changes_columns:
        return jvm.single(jvm.delta, "DeltaOperations$ManualUpdate")
    mode = jvm.root.org.apache.spark.sql.streaming.OutputMode.Update()
    return getattr(jvm.delta, "DeltaOperations$StreamingUpdate")(mode, APP, batch, jvm.none)


def with_columns(jvm: Jvm, transaction: Any, schema: str, partitions: Sequence[str]) -> None:
    """Give a table other columns with a transaction, as JSON of its log; all else of its metadata stays."""
    metadata = transaction.metadata()
    transaction.updateMetadata(
        jvm.delta.actions.Metadata(
            metadata.id(),
            metadata.name(),
            metadata.description(),
            metadata.format(),
            schema,
            jvm.seq(partitions),
            metadata.configuration(),
            metadata.createdTime(),
        ),
        False,  # the properties that a session gives new tables are none of this one's
    )


def commit(
    jvm: Jvm, transaction: Any, files: Sequence[Any], progress: Progress, notes: Mapping[str, str], operation: Any
) -> int:
    """Commit files that are added and removed, with the progress and other `notes`; return the version."""
    line, actions = progress.to_json(), jvm.delta.actions
    kept = [actions.SetTransaction(APP, progress.batch, jvm.none), actions.DomainMetadata(APP, line, False)]
    with said_by(jvm.spark, {PROGRESS: line, **notes}):
        return int(transaction.commit(jvm.seq([*files, *kept]), operation))
