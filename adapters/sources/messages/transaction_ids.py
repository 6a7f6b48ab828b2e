"""What names a transaction: an id of Debezium for PostgreSQL says in addition where the change is in the log.

`752:26711768` is the change at 26711768 of the transaction 752: two changes of one transaction have two such ids,
and its END has a third (debezium-connector-postgres, `PostgresTransactionInfo`).
"""

from __future__ import annotations

import re
from typing import Final

from lakeward.adapters.spark.sql.names import text

_WITH_PLACE: Final = "([0-9]+):[0-9]+"


def transaction_name(id_: str) -> str:
    """Return what all changes of a transaction share of their ids.

    >>> [transaction_name(id_) for id_ in ("752:26711768", "0-223344-10", "36dd7b90-1d3c-11ef:23")]
    ['752', '0-223344-10', '36dd7b90-1d3c-11ef:23']
    """
    found = re.fullmatch(_WITH_PLACE, id_)
    return id_ if found is None else found[1]


def transaction_name_of(id_: str) -> str:
    """Return the same as SQL, of an id as SQL."""
    whole = text(rf"\A{_WITH_PLACE}\z")
    return f"regexp_replace({id_}, {whole}, '$1')"
