"""Start Spark once, and give each thread a session of its own."""

from __future__ import annotations

import gc
import locale
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from lakeward.adapters.spark.session import class_archive
from lakeward.adapters.spark.session.compatibility import line
from lakeward.adapters.spark.session.errors import (
    FAILURES,
    exhausted,
    is_cut_off,
    is_of_memory,
    is_shut_down,
    keep_quiet,
    lost,
    short_message,
)
from lakeward.adapters.spark.session.jars import CLASSES, Progress, fetch, groups_of, select_jars
from lakeward.adapters.spark.session.java import check_java, in_utf_8
from lakeward.core.errors import ConfigError, EngineLost, SetupError

SETTINGS: Final[Mapping[str, str]] = {
    # These decide the meaning of data, so platform defaults must not change them.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parser.escapedStringLiterals": "false",
}
"""Settings that decide the meaning of data; users cannot change them."""

TUNING: Final[Mapping[str, str]] = {
    # Batches are small: listing their files is not worth a job.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    # Otherwise PySpark looks up the line of code of every expression: half the time of a small batch.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # The fold of a history nests deeper than the 100 levels that Spark 3.5 resolves by default.
    "spark.sql.analyzer.maxIterations": "1000",
    # A batch is cached for minutes; choosing the best compression takes an eighth of the time to read it.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}
"""Settings that every session gets, even one that a platform started."""

_TIER_4: Final = {"Invocation": 5_000, "MinInvocation": 600, "Compile": 15_000, "BackEdge": 40_000}
"""How often code runs before Java fully optimizes it, by default."""

JAVA: Final = (
    # Most code of a batch runs only a few times, so it is optimized at fifty times the default threshold.
    *(f"-XX:Tier4{what}Threshold={50 * times}" for what, times in _TIER_4.items()),
    # The code that Spark generates for a row of many columns exceeds Java's limit and would be interpreted.
    "-XX:-DontCompileHugeMethods",
    "-XX:+UseParallelGC",
)
"""Options with which Java starts sooner, and a large batch takes no longer.

docs/explanation/benchmarks.md has the figures.
"""

LOCAL: Final[Mapping[str, str]] = {
    "spark.master": "local[*]",
    "spark.app.name": "lakeward",
    "spark.driver.extraJavaOptions": " ".join(JAVA),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Data for the hidden web UI: 1,000 plans take over 100 MB of text (SPARK-25814).
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.locality.wait": "0",
    "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
    # Cached data is spilled before data that is being sorted: reading the latter back needs memory.
    "spark.memory.storageFraction": "0.1",
    # Java's object streams hold on to 100 objects (`spark.serializer.objectStreamReset`). With the default of
    # 10,000 rows each, those of two tasks fill 1 GiB.
    "spark.sql.inMemoryColumnarStorage.batchSize": "1000",
    # A batch has more plans than the 100 whose code is cached by default, and would compile them each time.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # Joins of a batch have hints, and it has few partitions: planning again at each stage only costs time.
    "spark.sql.adaptive.enabled": "false",
    "spark.log.level": "ERROR",
    # Concurrent tables share the machine: a long job of one table does not block the jobs of others.
    "spark.scheduler.mode": "FAIR",
}
"""The configuration of a Spark that lakeward starts, unless the settings say otherwise."""


_IGNORE_CTRL_C: Final = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""A program that ignores Ctrl-C and then executes its arguments. It is Python because a shell may drop environment
variables whose names it does not know.
"""

_EXIT_TIMEOUT: Final = 10.0
"""Seconds to wait for the end of Java after it stopped answering."""

_OUT_OF_MEMORY: Final = 52
"""The exit code of Java after a task ran out of memory (`org.apache.spark.util.SparkExitCode.OOM`)."""

_LAUNCH_SETTINGS: Final = ("spark.master", "spark.driver.", "spark.jars", "spark.submit.", "spark.log.level")


class Sessions:
    """Starts Spark at the first call, and returns a session of its own to each thread.

    Tables are processed in threads, and read and write settings belong to a session. If a platform (Glue, EMR) has
    started Spark already, that Spark is used with its own jars. With `archives`, stopping writes an archive of Java
    classes that later runs start with. `run_ids` are the identifiers that an orchestrator gives the run.
    """

    def __init__(
        self,
        jars: set[str],
        settings: Mapping[str, str],
        log: Path,
        on_fetch: Callable[[str, int], Progress | None] = lambda _file, _size: None,
        *,
        archives: bool = False,
        run_ids: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        fixed = sorted(set(settings) & set(SETTINGS))
        if fixed:
            raise ConfigError(
                f"{fixed[0]} cannot be set: it changes the meaning of data",
                found=f"lakeward sets it to {SETTINGS[fixed[0]]}",
                todo="Take it out of [spark.settings].",
            )
        keep_quiet()
        self.jars = jars
        self.settings = {**TUNING, **settings}
        self.log = log
        self.on_fetch = on_fetch
        self.archives = archives
        self.run_ids = run_ids
        self.archive: Path | None = None
        self._lock = threading.Lock()
        self._first: SparkSession | None = None
        self._has_started = False
        self._of_thread = threading.local()

    def __call__(self) -> SparkSession:
        """Return the session of the calling thread, with all settings in place."""
        with self._lock:
            if self._first is None:
                self._first = self._find_running() or self._start()
        session: SparkSession | None = getattr(self._of_thread, "session", None)
        if session is None:
            session = self._of_thread.session = self._first.newSession()
            for name, value in {**SETTINGS, **self.settings}.items():
                if session.conf.isModifiable(name) or name.startswith("spark.sql.catalog."):
                    session.conf.set(name, value)
            _make_active(session)
            # Spark adds these to the log context of a task ("Configuring Logging"), so a pattern may print them.
            for name, value in self.run_ids.items():
                session.sparkContext.setLocalProperty(f"mdc.{name}", value)
            # A thread processes one table at a time, so one pool for each thread is one for each running table.
            session.sparkContext.setLocalProperty("spark.scheduler.pool", f"lakeward-{threading.get_ident()}")
        return session

    @property
    def configuration(self) -> Mapping[str, str]:
        """The configuration of a Spark that lakeward starts; its folders are next to its log."""
        folders = {"spark.sql.warehouse.dir": str(self.log.absolute().with_name("spark-warehouse"))}
        return {**LOCAL, **folders, **SETTINGS, **self.settings}

    def lost(self, what: str, error: BaseException) -> EngineLost | None:
        """Return the error to report if the Java that was started here caused it by ending, else None."""
        first = self._first
        if first is None or not self._has_started:
            return None
        memory = self.configuration.get("spark.driver.memory", "what Spark takes by default")
        if is_of_memory(error):
            return exhausted(what, memory)
        if not (is_cut_off(error) or is_shut_down(error)):
            return None
        with suppress(subprocess.TimeoutExpired):
            code = cast("Any", first.sparkContext._gateway).proc.wait(_EXIT_TIMEOUT)
            return exhausted(what, memory) if code == _OUT_OF_MEMORY else lost(what)
        return None

    def stop(self) -> None:
        """Stop Spark if it was started here and still runs."""
        with self._lock:
            if self._first is not None and self._has_started:
                gateway = cast("Any", self._first.sparkContext._gateway)
                with suppress(*FAILURES, OSError):
                    self._first.stop()
                    if self.archives:
                        _end(gateway)
            self._first = None

    def _find_running(self) -> SparkSession | None:
        """Return the running session, if any; raises SetupError if its Spark lacks needed jars."""
        session = running()
        if session is None:
            return None
        missing = [group for group in groups_of(self.jars) if not has_class(session, CLASSES.get(group))]
        if missing:
            raise SetupError(
                f"Spark was started without {' and '.join(missing)}",
                found=f"its class path lacks {' and '.join(CLASSES[group] for group in missing)}",
                todo="Start it with those jars (`lakeward jars` lists them; on Glue --datalake-formats says the "
                "format), or let lakeward start Spark itself.",
            )
        return session

    def _start(self) -> SparkSession:
        java = check_java()
        paths = [str(fetch(jar, self.on_fetch(jar.file, jar.size))) for jar in select_jars(self.jars)]
        conf = SparkConf(loadDefaults=True)
        for name, value in self.configuration.items():
            conf.set(name, value)
        if conf.get("spark.master", "").startswith("local"):
            conf.set("spark.driver.extraClassPath", os.pathsep.join(paths))
            self.archive = class_archive.archive_of(java, [Path(path) for path in paths])
            option = class_archive.make(self.archive) if self.archives else class_archive.use(self.archive)
            options = conf.get("spark.driver.extraJavaOptions", "")
            conf.set("spark.driver.extraJavaOptions", " ".join(filter(None, [options, option])))
        else:
            conf.set("spark.jars", ",".join(paths))
        os.environ.setdefault("JAVA_HOME", str(java.resolve().parent.parent))
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.update(in_utf_8(sys.getfilesystemencoding(), locale.getencoding()))
        self._has_started = True
        try:
            session = SparkSession(SparkContext(conf=conf, gateway=self._launch(conf)))
        except (*FAILURES, ConnectionError) as error:
            raise self._not_started(short_message(error)) from error
        # Imported objects stay alive: scanning them at each collection takes a tenth of a small batch.
        gc.freeze()
        return session

    def _launch(self, conf: SparkConf) -> Any:
        """Start the JVM with its messages in a file, since on a terminal they would bury ours.

        Its command line is visible to everybody on the machine, so it has only what the start needs. The context
        passes on the rest.
        """
        launch_conf = SparkConf(loadDefaults=False)
        for name, value in conf.getAll():
            if name.startswith(_LAUNCH_SETTINGS):
                launch_conf.set(name, value)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log, _starting_by_exec():
            try:
                gateway: Any = java_gateway.launch_gateway(  # type: ignore[no-untyped-call]
                    launch_conf, {"stdout": log, "stderr": log}
                )
            except PySparkRuntimeError as error:
                lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
                raise self._not_started("\n".join(lines[-5:]) or str(error)) from error
        # SIGTERM often goes to all processes of a service. Java must run until this process finishes its commit.
        signals = gateway.jvm.sun.misc
        signals.Signal.handle(signals.Signal("TERM"), signals.SignalHandler.SIG_IGN)
        return gateway

    def _not_started(self, found: str) -> SetupError:
        todo = f"The whole of it is in {self.log}."
        return SetupError(f"Spark {line()} did not start", found=found, todo=todo)


def has_class(session: SparkSession, name: str | None) -> bool:
    """Return whether the Spark of a session has a Java class; True if `name` is None."""
    if name is None:
        return True
    jvm = cast("Any", session.sparkContext._jvm)
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
    except FAILURES:
        return False
    return True


@contextmanager
def using_session(session: SparkSession | None) -> Iterator[None]:
    """Make a session that was started elsewhere the active one, and restore the previous one afterwards.

    Without a session the running one is used. Raises SetupError for a session of Spark Connect.
    """
    active = running() if session is None else session
    if active is None:
        yield
        return
    if not isinstance(active, SparkSession):
        raise SetupError(
            "lakeward does not run in a session of Spark Connect",
            found=f"the session is a {type(active).__module__}.{type(active).__qualname__}",
            todo="Give a session of the driver (pyspark.sql.SparkSession), or none: lakeward starts its own.",
        )
    jvm = cast("Any", active.sparkContext._jvm)
    previous = jvm.SparkSession.getActiveSession()
    if session is not None:
        _make_active(session)
    try:
        yield
    finally:
        if previous.isDefined():
            jvm.SparkSession.setActiveSession(previous.get())
        else:
            jvm.SparkSession.clearActiveSession()


def running() -> SparkSession | None:
    """Return the session that a platform (or a test) has started, from any thread."""
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


@contextmanager
def _starting_by_exec() -> Iterator[None]:
    """Make PySpark start Java without running Python code in the process that becomes Java.

    PySpark would run code there to make Java ignore Ctrl-C; here a new Python process does that. Before such a fork
    Python takes all locks of logging and then the import lock. The thread of another table that is importing may
    want them in the other order, and both would wait forever.
    """
    module: Any = java_gateway
    original = module.Popen
    module.Popen = _popen
    try:
        yield
    finally:
        module.Popen = original


def _popen(command: Sequence[str], *, preexec_fn: object = None, **more: Any) -> subprocess.Popen[bytes]:
    wrapper = [] if preexec_fn is None else [sys.executable, "-I", "-S", "-c", _IGNORE_CTRL_C]
    full_command = [*wrapper, *command]
    return subprocess.Popen(full_command, **more)  # noqa: S603  # PySpark's own command


def _end(gateway: Any) -> None:
    """End Java, and wait until it has ended, including its work at exit."""
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    gateway.proc.stdin.close()
    gateway.proc.wait()


def _make_active(session: SparkSession) -> None:
    """Make a session the active one of its thread: names are looked up in the catalogs of the active session."""
    jvm = cast("Any", session.sparkContext._jvm)
    jvm.SparkSession.setActiveSession(session._jsparkSession)
