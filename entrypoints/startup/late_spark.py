"""Spark that starts at its first use."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lakeward.core.errors import EngineLost
from lakeward.entrypoints.settings.configuration import Configuration
from lakeward.plugins import Runtime


class LateSpark:
    """Imports and starts Spark at the first call, so that a run that does not need Spark never starts it.

    With `archives`, stopping it writes a class data archive of the JVM.
    """

    archives = False

    def __init__(self, configured: Configuration, on_fetch: Callable[[str, int], Any]) -> None:
        self.configured = configured
        self.on_fetch = on_fetch
        self.runtime: Runtime | None = None
        self._sessions: Any = None
        self._lock = threading.Lock()

    def __call__(self) -> Any:
        """Return the session of the calling thread; starts Spark at the first call."""
        with self._lock:
            if self._sessions is None:
                self._sessions = self._start()
        return self._sessions()

    def _start(self) -> Any:
        from lakeward.adapters.spark.session.spark_session import Sessions  # noqa: PLC0415  # slow to import

        spark = self.configured.settings.spark
        settings = {"spark.master": spark.master, "spark.driver.memory": spark.memory, **spark.settings}
        adapter_settings = self.runtime.settings if self.runtime is not None else {}
        jars = self.runtime.jars if self.runtime is not None else set()
        log = self.configured.state / "spark.log"
        ids = self.runtime.run_ids if self.runtime is not None else {}
        merged = {**settings, **adapter_settings}
        return Sessions(jars, merged, log, self.on_fetch, archives=self.archives, run_ids=ids)

    def lost(self, what: str, error: BaseException) -> EngineLost | None:
        """Return the EngineLost error if the JVM has exited by itself, else None."""
        return None if self._sessions is None else self._sessions.lost(what, error)

    def stop(self) -> None:
        """Stop Spark, if it was started."""
        if self._sessions is not None:
            self._sessions.stop()

    @property
    def master(self) -> str:
        """The master URL of Spark, running or not; nothing is started."""
        if sys.modules.get("pyspark") is not None:
            from lakeward.adapters.spark.session.spark_session import running  # noqa: PLC0415  # imports pyspark

            if (session := running()) is not None:
                return str(session.sparkContext.master)
        spark = self.configured.settings.spark
        return spark.settings.get("spark.master", spark.master)

    @property
    def archive(self) -> Path | None:
        """Path of the class data archive, if it was written."""
        return None if self._sessions is None else self._sessions.archive
