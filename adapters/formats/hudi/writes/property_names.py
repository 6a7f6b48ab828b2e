"""The names of properties that Hudi's writer knows, to recognise misspelt ones.

They are those of the classes of Hudi 1.2.0. The Hudi of a platform may know more.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

_NAMES_BY_FAMILY: Final[Mapping[str, str]] = {
    "archive": "async automatic beyond.savepoint block.on.latest.clean.ectr delete.parallelism limit.instants",
    "bulkinsert": "are.partitioner.records.sorted overwrite.operation.type schema.ddl shuffle.parallelism "
    "sort.mode sort.suffix.record_key user.defined.partitioner.class user.defined.partitioner.sort.columns",
    "clean": "allow.multiple async async.enabled automatic commits.retained delete.bootstrap.base.file "
    "failed.writes.policy fileversions.retained hours.retained incremental.enabled max.commits "
    "max.commits.to.clean multiple.enabled optimize.using.local.engine.context parallelism partition.filter.regex "
    "partition.filter.selected policy trigger.max.commits trigger.strategy",
    "cleaner": "commits.retained delete.bootstrap.base.file fileversions.retained hours.retained incremental.mode "
    "parallelism partition.filter.regex partition.filter.selected policy policy.failed.writes",
    "compact": "inline inline.max.delta.commits inline.max.delta.seconds inline.trigger.strategy schedule.inline",
    "compaction": "daybased.target.partitions lazy.block.read logfile.num.threshold logfile.size.threshold "
    "partition.path.regex plan.generator reverse.log.read strategy target.io",
    "delete": "shuffle.parallelism",
    "insert": "shuffle.parallelism",
    "keep": "max.commits min.commits",
    "logfile": "data.block.format data.block.max.size max.size to.parquet.compression.ratio",
    "markers": "delete.parallelism timeline_server_based.batch.interval_ms timeline_server_based.batch.num_threads",
    "memory": "compaction.fraction compaction.max.size dfs.buffer.max.size merge.fraction merge.max.size "
    "spillable.map.path writestatus.failure.fraction",
    "parquet": "block.size bloom.filter.enabled compression.codec compression.ratio dictionary.enabled "
    "field_id.write.enabled flink.rowdata.write.support.class max.file.size outputtimestamptype page.size "
    "small.file.limit spark.row.write.support.class write.config.injector.class write.utc "
    "writelegacyformat.enabled",
    "upsert": "shuffle.parallelism",
}

KNOWN_PROPERTIES: Final = frozenset(
    f"hoodie.{family}.{name}" for family, names in _NAMES_BY_FAMILY.items() for name in names.split()
)


def closest_property(name: str) -> str | None:
    """Return the known name that this one nearly is; None if it is one, or is not near to one.

    >>> closest_property("hoodie.clean.commits.retaned")
    'hoodie.clean.commits.retained'
    >>> closest_property("hoodie.clean.by.a.later.hudi")
    """
    similar = (
        () if name in KNOWN_PROPERTIES else difflib.get_close_matches(name, KNOWN_PROPERTIES, n=1, cutoff=0.93)
    )
    return next(iter(similar), None)
