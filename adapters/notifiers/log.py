"""Write notices to the log."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from lakeward.core.reporting.notices import RunNotice

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class LogNotifier:
    """Writes each notice as one line of the log."""

    def send(self, notice: RunNotice) -> None:
        """Write a notice, at the level `warning`."""
        document = notice.to_document()
        log.warning("notice", subject=document["subject"], entries=document["entries"], more=document["more"])
