"""Names of transactions, from the ids in messages: an id of PostgreSQL has the position of the change as well.

`752:26711768` is the change at 26711768 of the transaction 752. Each change of a transaction has an id of its own,
and so has its END (debezium-connector-postgres, `PostgresTransactionInfo`).
"""

from __future__ import annotations

import re
from typing import Final

from lakeward.adapters.spark.sql.names import text

_WITH_PLACE: Final = "([0-9]+):[0-9]+"


def transaction_name(id_: str) -> str:
    """Return the part of an id that is the same for all changes of a transaction.

    >>> [transaction_name(id_) for id_ in ("752:26711768", "0-223344-10", "36dd7b90-1d3c-11ef:23")]
    ['752', '0-223344-10', '36dd7b90-1d3c-11ef:23']
    """
    match = re.fullmatch(_WITH_PLACE, id_)
    return id_ if match is None else match[1]


def transaction_name_of(id_: str) -> str:
    """Return `transaction_name` as SQL, for an id as SQL."""
    pattern = text(rf"\A{_WITH_PLACE}\z")
    return f"regexp_replace({id_}, {pattern}, '$1')"
