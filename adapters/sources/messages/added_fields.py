"""Fields that Debezium's transform adds to a flattened row and that are no columns, such as `__source_ts_ms`.

debezium.io/documentation/reference/stable/transformations/event-flattening.html: `add.fields` names fields of the
message, of its `source` or of its `transaction`; their names get the prefix `__`. Other names with that prefix are
columns, such as `__v` of Mongoose.
"""

from __future__ import annotations

import re
from typing import Final

_OF_MESSAGE: Final = "op deleted ts_ms ts_us ts_ns"
_OF_SOURCE: Final = (
    "version connector name ts_ms ts_us ts_ns snapshot db schema table collection sequence lsn xmin txId origin "
    "origin_lsn server_id gtid file pos row thread query scn commit_scn commit_ts_ms start_scn start_ts_ms ssn "
    "lcr_position rs_id redo_thread redo_sql user_name row_id commit_lsn change_lsn event_serial_no begin_lsn "
    "command_id ord h tord lsid txnNumber wallTime stripeAudit keyspace shard vgtid commit_time"
)
_OF_TRANSACTION: Final = "id total_order data_collection_order"

PATTERN: Final = "__({}|(source_)?({})|transaction_({}))".format(
    *(names.replace(" ", "|") for names in (_OF_MESSAGE, _OF_SOURCE, _OF_TRANSACTION))
)
"""A regular expression that matches the whole name of such a field."""

_PATTERN: Final = re.compile(PATTERN)


def is_added(name: str) -> bool:
    """Return whether the transform added a field to a flattened row, by the field's name.

    >>> [is_added(name) for name in ("__op", "__source_ts_ms", "__lsn", "__v", "op")]
    [True, True, True, False, False]
    """
    return _PATTERN.fullmatch(name) is not None
