"""Errors that PyIceberg raises for a catalog of any kind, and their messages."""

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
"""Errors of the clients of Glue and Hive. These packages are extras, so their modules are only used if loaded."""

_EXTRAS: Final = {"glue": "s3", "hive": "hive"}
_SECRET: Final = re.compile(r"credential|key|password|secret|token", re.IGNORECASE)
_USER: Final = re.compile(r"[^\s/@'\"]+@")


def failures(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """Return the errors raised for a catalog that cannot be reached or refuses a request, and these `others`."""
    loaded = ((sys.modules.get(module), name) for module, name in _OF_CLIENTS)
    of_clients = (getattr(module, name) for module, name in loaded if module is not None)
    return (NotInstalledError, RESTError, SQLAlchemyError, *of_clients, *others)


def unreadable(table: TableName, options: IcebergOptions, error: Exception) -> LakewardError:
    """Return the error to raise for an error of the catalog while a table was loaded."""
    if isinstance(error, NotInstalledError):
        return SetupError(
            f'the package that reaches a catalog of the kind "{options.catalog}" is not installed',
            found=first_line(error, options),
            todo=f"pip install 'lakeward[{_EXTRAS.get(options.catalog, 's3')}]'",
        )
    check = " Is [target.catalog_properties] right (docs/reference/iceberg.md)?"
    where = "" if options.catalog == "sqlite" else check
    return TableError(
        f"{table}: the catalog cannot be read",
        found=first_line(error, options),
        todo=f"Nothing was applied. Mend that, and run again.{where}",
    )


def first_line(error: BaseException, options: IcebergOptions) -> str:
    """Return the first line of an error's message, without secrets of the settings.

    >>> of = IcebergOptions(warehouse="lake", catalog="rest", catalog_properties={"credential": "me:sesame"})
    >>> first_line(ValueError("https://a:b@lake refused me:sesame"), of)
    'https://…@lake refused …'
    """
    text = str(error).strip().partition("\n")[0]
    for name, value in options.catalog_properties.items():
        if value and _SECRET.search(name):
            text = text.replace(value, "…")
    return _USER.sub("…@", text) or type(error).__name__
