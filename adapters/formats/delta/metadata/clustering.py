"""The clustering columns of a Delta table, from its log, without Spark.

They are metadata of the domain `delta.clustering` (Delta's protocol, "Clustered Table"), with the names that
columns have in files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from deltalake import DeltaTable

from lakeward.adapters.formats.delta.metadata.column_mapping import PHYSICAL_NAME
from lakeward.adapters.formats.delta.metadata.progress import checkpoints, commits_in, domains_of, file_of
from lakeward.adapters.formats.shared.storage.folder import Folder

_DOMAIN: Final = "delta.clustering"


def clustered_by(table: DeltaTable, log: Folder) -> Sequence[str]:
    """Return the clustering columns of a table in order; none if it is not clustered."""
    domain = next((item for item in _domains(log, table.version()) if item["domain"] == _DOMAIN), None)
    if domain is None or domain.get("removed"):
        return ()
    fields = json.loads(table.schema().to_json())["fields"]
    names = {field["metadata"].get(PHYSICAL_NAME, field["name"]): field["name"] for field in fields}
    paths = json.loads(domain["configuration"])["clusteringColumns"]
    return tuple(".".join([names.get(first, first), *rest]) for first, *rest in paths)


def _domains(log: Folder, upto: int) -> Iterator[Mapping[str, Any]]:
    """Yield the metadata domains of a version, the newest entry of each domain first."""
    newest = next(iter(checkpoints(log, upto)), None)
    since = -1 if newest is None else int(newest.split(".")[0])
    for version in sorted((number for number in commits_in(log) if since < number <= upto), reverse=True):
        yield from domains_of(log, file_of(version))
    if newest is not None:
        yield from domains_of(log, newest)
