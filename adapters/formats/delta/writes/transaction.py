"""Transactions of Delta: the last batch of a table, and what a commit says about itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakeward.adapters.formats.delta.java import Jvm
from lakeward.adapters.formats.delta.metadata.commit_info import setting_user_metadata
from lakeward.adapters.formats.delta.metadata.progress import APP, PROGRESS
from lakeward.core.progress import Progress


def read_batch(jvm: Jvm, transaction: Any, snapshot: Any) -> int:
    """Return the last batch that a table has seen, -1 before the first; a commit of another one becomes a conflict.

    Delta's checksum of the version has it, if there is one; `txnVersion` needs a Spark job.
    """
    checksum = snapshot.checksumOpt()
    transactions = checksum.get().setTransactions() if checksum.isDefined() else jvm.none
    if not transactions.isDefined():
        return int(transaction.txnVersion(APP))
    getattr(transaction.readTxn(), "$plus$eq")(APP)  # as `txnVersion` does
    return next((int(item.version()) for item in jvm.items(transactions.get()) if str(item.appId()) == APP), -1)


def operation_of(jvm: Jvm, batch: int, *, changes_columns: bool) -> Any:
    """Return the Delta operation for the commit of a batch.

    After an update of a stream Delta counts the table's files on from the last version. After a manual update,
    which may change partition columns as well, it counts all of them with a Spark job.
    """
    if changes_columns:
        return jvm.single(jvm.delta, "DeltaOperations$ManualUpdate")
    mode = jvm.root.org.apache.spark.sql.streaming.OutputMode.Update()
    return getattr(jvm.delta, "DeltaOperations$StreamingUpdate")(mode, APP, batch, jvm.none)


def with_columns(jvm: Jvm, transaction: Any, schema: str, partitions: Sequence[str]) -> None:
    """Set the columns of a table in a transaction, as JSON of its log; its other metadata stays."""
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
    progress_json, actions = progress.to_json(), jvm.delta.actions
    bookkeeping = [
        actions.SetTransaction(APP, progress.batch, jvm.none),
        actions.DomainMetadata(APP, progress_json, False),
    ]
    with setting_user_metadata(jvm.spark, {PROGRESS: progress_json, **notes}):
        return int(transaction.commit(jvm.seq([*files, *bookkeeping]), operation))
