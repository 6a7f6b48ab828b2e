"""Commands in a process of their own that starts Spark once.

Run as `python command_process.py FORMAT`; each line of its input is a JSON list.

The S3 server of the tests is a thread, and delta-rs and hudi-rs block all threads of their process.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from commands import Ended

from lakeward.adapters.aws.s3.access import bucket_and_key, find_access


@dataclass
class CommandProcess:
    stdin: IO[str]
    stdout: IO[str]

    def call(self, *arguments: str) -> Ended:
        return Ended(**self._asked({"command": arguments}))

    def read(self, url: str, columns: Sequence[str]) -> list[list[Any]]:
        """Return the rows of a table, read without Spark, with decimals as texts."""
        rows: list[list[Any]] = self._asked({"url": url, "columns": columns})
        return rows

    def _asked(self, request: Any) -> Any:
        self.stdin.write(json.dumps(request) + "\n")
        self.stdin.flush()
        answer = self.stdout.readline()
        assert answer, "the process has ended: see spark.log, and what it printed"
        return json.loads(answer)


@contextmanager
def start_process(folder: Path, kind: str) -> Iterator[CommandProcess]:
    """Start the process in a folder, for a table format. It ends with the context."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__)), kind],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield CommandProcess(process.stdin, process.stdout)
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


def _play(kind: str) -> None:
    """Start Spark as a run would, and execute the commands of its input."""
    from spark import INTERPRETED, QUICKLY_COMPILED  # noqa: PLC0415  # who only starts this imports no Spark

    from lakeward.adapters.formats.delta import session as delta  # noqa: PLC0415
    from lakeward.adapters.formats.hudi import session as hudi  # noqa: PLC0415
    from lakeward.adapters.spark.session.s3a import s3a_settings  # noqa: PLC0415
    from lakeward.adapters.spark.session.spark_session import Sessions  # noqa: PLC0415
    from lakeward.entrypoints.cli import main  # noqa: PLC0415

    own = {"delta": delta.SETTINGS, "hudi": hudi.SETTINGS}[kind]
    sizes = {"spark.master": "local[2]", "spark.driver.memory": "2g", **QUICKLY_COMPILED, **INTERPRETED}
    sessions = Sessions({kind, "s3"}, {**sizes, **own, **s3a_settings(find_access())}, Path("spark.log"))
    sessions().sql("SHOW TABLES").collect()
    answers, sys.stdout = sys.stdout, io.StringIO()
    for line in sys.stdin:
        request = json.loads(line)
        if "command" in request:
            with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
                code = main(request["command"])
            answer: Any = {"code": code, "out": out.getvalue(), "err": err.getvalue()}
        else:
            rows = {"delta": _by_delta_rs, "hudi": _by_hudi_rs}[kind](request["url"])
            answer = [[row[name] for name in request["columns"]] for row in rows.to_pylist()]
        answers.write(json.dumps(answer, default=str) + "\n")
        answers.flush()
    sessions.stop()


def _by_delta_rs(url: str) -> pa.Table:
    from deltalake import DeltaTable, QueryBuilder  # noqa: PLC0415

    options = find_access().object_store_options(bucket_and_key(url)[0])
    table = DeltaTable(url, storage_options=dict(options))
    return pa.table(QueryBuilder().register("found", table).execute("SELECT * FROM found").read_all())


def _by_hudi_rs(url: str) -> pa.Table:
    from hudi import HudiTableBuilder  # noqa: PLC0415

    access = find_access()
    options = {"aws_endpoint": str(access.endpoint), "aws_region": access.region, "aws_allow_http": "true"}
    batches = HudiTableBuilder.from_base_uri(url).with_options(options).build().read()
    return pa.Table.from_batches([pa.record_batch(batch) for batch in batches])


def answer(ended: Ended, code: int = 0) -> Any:
    """Return the printed document of a command. Raises AssertionError for another exit code."""
    assert ended.code == code, ended.out + ended.err
    return ended.document


if __name__ == "__main__":
    _play(sys.argv[1])
