"""A REST catalog of Iceberg that answers the requests of lakeward and Spark from a file, without a network."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyiceberg import exceptions
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest, Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

_REFUSED: Final = {
    exceptions.NoSuchTableError: 404,
    exceptions.NoSuchNamespaceError: 404,
    exceptions.NamespaceAlreadyExistsError: 409,
    exceptions.CommitFailedException: 409,
}


@contextmanager
def rest_catalog(folder: Path) -> Iterator[str]:
    catalog = SqlCatalog("served", uri=f"sqlite:///{folder}/served.db", warehouse=f"file://{folder}/lake")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            asked = json.loads(self.rfile.read(length) or "{}")
            parts = [unquote(part) for part in urlsplit(self.path).path.removeprefix("/v1/").split("/")]
            code, content = 200, {}
            try:
                content = _answer(catalog, self.command, parts, asked)
            except tuple(_REFUSED) as error:
                code, name = _REFUSED[type(error)], type(error).__name__.replace("Error", "Exception")
                content = {"error": {"message": str(error), "type": name, "code": code}}
            self.send_response(code)
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else json.dumps(content).encode())

        do_HEAD = do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server, closing(catalog):
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def _answer(catalog: SqlCatalog, method: str, parts: Sequence[str], asked: dict[str, Any]) -> dict[str, Any]:
    match method, *parts:
        case "GET", "config":
            return {"defaults": {}, "overrides": {}}
        case "POST", "namespaces":
            catalog.create_namespace(tuple(asked["namespace"]))
            return asked
        case _, "namespaces", name:
            return {"namespace": [name], "properties": catalog.load_namespace_properties(name)}
        case "POST", "namespaces", name, "tables":
            made = CreateTableRequest.model_validate({"location": None, **asked})
            by, order = made.partition_spec or UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER
            table = (name, made.name)
            return _load_result(
                catalog.create_table(table, made.table_schema, made.location, by, order, made.properties)
            )
        case "POST", "namespaces", name, "tables", table:
            request = {**asked, "identifier": {"namespace": [name], "name": table}}
            commit = CommitTableRequest.model_validate(request)
            # PyIceberg cannot assert another ref of a table without a snapshot.
            asserted = tuple(one for one in commit.requirements if getattr(one, "ref", "main") == "main")
            catalog.commit_table(catalog.load_table((name, table)), asserted, commit.updates)
            return _load_result(catalog.load_table((name, table)))
        case "GET" | "HEAD", "namespaces", name, "tables", table:
            return _load_result(catalog.load_table((name, table)))
        case "POST", *_, "metrics":
            return {}
    raise exceptions.NoSuchTableError(f"{method} {'/'.join(parts)}")


def _load_result(table: Table) -> dict[str, Any]:
    metadata = json.loads(table.metadata.model_dump_json())
    return {"metadata-location": table.metadata_location, "metadata": metadata}
