"""What PyIceberg raises of a catalog, whichever it is, and what it is in a person's words."""

from __future__ import annotations

import re
import sys
from typing import Final

from pyiceberg.exceptions import NotInstalledError, RESTError
from sqlalchemy.exc import SQLAlchemyError

from lakeward.adapters.formats.iceberg.options import IcebergOptions
from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError, SetupError, TableError

_OF_CLIENTS: Final = (
    ("botocore.exceptions", "BotoCoreError"),
    ("botocore.exceptions", "ClientError"),
    ("thrift.Thrift", "TException"),
)
"""What the clients of Glue and of Hive raise, which are of extras: who raises it has loaded its module."""

_EXTRAS: Final = {"glue": "s3", "hive": "hive"}
_SECRET: Final = re.compile(r"credential|key|password|secret|token", re.IGNORECASE)
_USER: Final = re.compile(r"[^\s/@'\"]+@")


def failures(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """Return what a catalog raises that cannot be reached or does not take a request, and these others."""
    loaded = ((sys.modules.get(module), name) for module, name in _OF_CLIENTS)
    of_clients = (getattr(module, name) for module, name in loaded if module is not None)
    return (NotInstalledError, RESTError, SQLAlchemyError, *of_clients, *others)


def unreadable(table: TableName, options: IcebergOptions, error: Exception) -> LakewardError:
    """Return what to say of a catalog that raised this when a table was asked for."""
    if isinstance(error, NotInstalledError):
        return SetupError(
            f'the package that reaches a catalog of the kind "{options.catalog}" is not installed',
            found=said(error, options),
            todo=f"pip install 'lakeward[{_EXTRAS.get(options.catalog, 's3')}]'",
        )
    check = " Is [target.catalog_properties] right (docs/reference/iceberg.md)?"
    where = "" if options.catalog == "sqlite" else check
    return TableError(
        f"{table}: the catalog cannot be read",
        found=said(error, options),
        todo=f"Nothing was applied. Mend that, and run again.{where}",
    )


def said(error: BaseException, options: IcebergOptions) -> str:
    """Return the first line of what an error says, without what the settings have of secrets.

    >>> of = IcebergOptions(warehouse="lake", catalog="rest", catalog_properties={"credential": "me:sesame"})
    >>> said(ValueError("https://a:b@lake refused me:sesame"), of)
    'https://…@lake refused …'
    """
    text = str(error).strip().partition("\n")[0]
    for name, value in options.catalog_properties.items():
        if value and _SECRET.search(name):
            text = text.replace(value, "…")
    return _USER.sub("…@", text) or type(error).__name__
