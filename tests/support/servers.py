"""Databases of the tests, from Debian's packages.

Outside of the gate, a test is skipped if its database is not installed.
With `LAKEWARD_SERVERS=required`, which the gate sets, it fails.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from lakeward.adapters.spark.session.java import check_java
from lakeward.core.errors import SetupError

HOW = "apt-get install postgresql mariadb-server (as root; `make servers` does it)"
PATIENCE = 180.0
"""The seconds within which a server must start on a slow machine, or end."""
ANSWER = 10.0
"""The seconds within which a server that has started must answer."""
in_own_sessions = False
"""Whether servers and their clients are protected from signals of the terminal, so that they are ended in order."""


@dataclass(frozen=True)
class Server:
    """A running database: its address, and a function that runs SQL and returns one row per line."""

    url: str
    user: str
    password: str
    tell: Callable[[str], str]


def find(program: str, *places: str) -> str:
    """Return the path of a program. Without it the test is skipped, or fails in the gate."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", *places])
    own_path = shutil.which(program, path=path)
    if own_path is None:
        give_up(f"{program} is not installed: {HOW}")
    return own_path


def find_java() -> str:
    """Return the path of the Java that Spark starts. Without it the test is skipped, or fails in the gate."""
    try:
        return str(check_java())
    except SetupError as error:
        give_up(str(error))


def give_up(reason: str) -> NoReturn:
    """Skip the test, or let it fail in the gate."""
    if os.environ.get("LAKEWARD_SERVERS") == "required":
        pytest.fail(reason)
    pytest.skip(reason)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def as_user(name: str, folder: Path, command: Sequence[str]) -> list[str]:
    """Return a command that runs as another user if this is root, because databases refuse to run as root."""
    if os.geteuid() != 0:
        return [*command]
    subprocess.run(["chown", "-R", name, folder], check=True)
    return ["setpriv", f"--reuid={name}", f"--regid={name}", "--clear-groups", *command]


@contextmanager
def running(command: Sequence[str], log: Path, answers: Callable[[], bool]) -> Iterator[None]:
    """Run a server while the context lasts."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            cwd="/",
            start_new_session=in_own_sessions,
        )
    try:
        until = time.monotonic() + PATIENCE
        while not answers():
            if has_ended(process, within=0.05) or time.monotonic() > until:
                pytest.fail(f"{command[-1]} did not start: {log.read_text('utf-8', 'replace')[-2000:]}")
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


def has_ended(process: subprocess.Popen[bytes], within: float) -> bool:
    """Wait so many seconds for a process to end, and return True if it did."""
    try:
        process.wait(within)
    except subprocess.TimeoutExpired:
        return False
    return True


def is_zero(command: Sequence[str]) -> bool:
    ended = subprocess.run(command, capture_output=True, check=False, start_new_session=in_own_sessions)
    return ended.returncode == 0


def answer_of(command: Sequence[str]) -> str:
    return subprocess.run(
        command, check=True, capture_output=True, text=True, start_new_session=in_own_sessions
    ).stdout


@contextmanager
def postgresql(folder: Path) -> Iterator[Server]:
    """Start PostgreSQL in a folder. Its user needs the password."""
    places = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    programs = {name: find(name, *places) for name in ("initdb", "postgres", "psql")}
    data, word, port = folder / "data", folder / "word", free_port()
    word.write_text("pg secret word", "utf-8")
    prepare = [programs["initdb"], "-D", str(data), "-U", "shop", "-A", "scram-sha-256", "-E", "UTF8", "--locale=C"]
    subprocess.run(
        as_user("postgres", folder, [*prepare, f"--pwfile={word}", "--no-sync"]), check=True, capture_output=True
    )
    start = [programs["postgres"], "-D", str(data), "-p", str(port), "-k", str(folder), "-h", "127.0.0.1", "-F"]
    start += ["-c", "wal_level=logical"]
    psql = ["env", "PGPASSWORD=pg secret word", programs["psql"], "-h", "127.0.0.1", "-p", str(port), "-U", "shop"]

    def tell(sql: str) -> str:
        return answer_of([*psql, "-v", "ON_ERROR_STOP=1", "-qAtc", sql, "postgres"])

    with running(
        as_user("postgres", folder, start), folder.parent / "pg.log", lambda: is_zero([*psql, "-c", "", "postgres"])
    ):
        yield Server(f"jdbc:postgresql://127.0.0.1:{port}/postgres", "shop", "pg secret word", tell)


@contextmanager
def mariadb(folder: Path) -> Iterator[Server]:
    """Start MariaDB in a folder. Its user needs the password."""
    programs = {name: find(name) for name in ("mariadb-install-db", "mariadbd", "mariadb")}
    data, port, at = folder / "data", free_port(), folder / "s.sock"
    prepare = ["--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db"]
    subprocess.run(
        as_user("mysql", folder, [programs["mariadb-install-db"], *prepare]),
        check=True,
        capture_output=True,
        cwd="/",
    )
    start = [programs["mariadbd"], "--no-defaults", f"--datadir={data}", f"--socket={at}", f"--port={port}"]
    start += ["--bind-address=127.0.0.1", "--skip-name-resolve", "--innodb-buffer-pool-size=32M"]
    start += ["--innodb-flush-log-at-trx-commit=0", "--performance-schema=OFF", f"--pid-file={folder / 'pid'}"]
    start += ["--server-id=1", "--log-bin=binlog", "--binlog-format=ROW", "--sync-binlog=0"]
    client = [programs["mariadb"], "--no-defaults", f"--socket={at}", "--user=root", "-sNe"]

    def tell(sql: str) -> str:
        return answer_of([*client, sql])

    with running(as_user("mysql", folder, start), folder.parent / "maria.log", lambda: is_zero([*client, ""])):
        tell("CREATE USER shop@127.0.0.1 IDENTIFIED BY 'maria secret word'; GRANT ALL ON *.* TO shop@127.0.0.1")
        yield Server(f"jdbc:mariadb://127.0.0.1:{port}/", "shop", "maria secret word", tell)
