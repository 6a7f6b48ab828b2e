"""Folders that DMS names by commit date (`DatePartitionEnabled`): every sequence and delimiter.

Some of them do not sort as text (`DD/MM/YYYY`), so nothing takes its order from them: a
folder is only known by its date, and tells files of one name apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import product
from typing import Final

SEQUENCES: Final = ("YYYYMMDD", "YYYYMMDDHH", "YYYYMM", "MMYYYYDD", "DDMMYYYY")
DELIMITERS: Final = ("/", "-", "_", "")
_PART = re.compile("YYYY|MM|DD|HH")


def _form(sequence: str, delimiter: str) -> str:
    return delimiter.join(_PART.findall(sequence))


FORMS: Final = tuple(_form(sequence, delimiter) for sequence, delimiter in product(SEQUENCES, DELIMITERS))
"""What a folder's path looks like, as `YYYY/MM/DD`. No path of the years 1900 to 2199 has two of these forms: the
year stands at another place in each, and begins with 19, 20 or 21, which is no month and, were it a day, would be
followed by a month that no year begins with."""

_PATTERNS: Final = {
    "YYYY": r"(?P<YYYY>(?:19|20|21)\d\d)",
    "MM": r"(?P<MM>0[1-9]|1[0-2])",
    "DD": r"(?P<DD>0[1-9]|[12]\d|3[01])",
    "HH": r"(?P<HH>[01]\d|2[0-3])",
}


@dataclass(frozen=True, slots=True)
class Period:
    """The hour, day or month that a folder is for."""

    start: datetime
    unit: str

    def age(self, millis: int) -> int:
        """Return how many such periods lie between it and a moment, in milliseconds since 1970."""
        moment = datetime.fromtimestamp(millis / 1000, UTC)
        if self.unit == "MM":
            return 12 * (moment.year - self.start.year) + moment.month - self.start.month
        seconds = {"HH": 3600, "DD": 86400}[self.unit]
        return int((moment - self.start).total_seconds() // seconds)


def find_period(folder: str, form: str | None = None) -> Period | None:
    """Return the period that a folder is named by, or None where its name is no date of that form (None: of any).

    >>> find_period("21/11/2026").start == find_period("2026-11-21").start == find_period("11202621").start
    True
    >>> find_period("2026-11-21", "YYYY/MM/DD") is None
    True
    """
    found = _find(folder, form)
    return None if found is None else found[0]


def folder_before(folder: str, form: str | None = None) -> str | None:
    """Return a folder before which none of later commits sorts; None for no date, and for dates that do not sort.

    DMS writes commits in their order. A folder may be behind that of an older file only where
    `DatePartitionTimezone` was changed, by 26 hours at most.

    >>> folder_before("2026/03/01"), folder_before("202603"), folder_before("2026-03-02-05")
    ('2026/02/27', '202602', '2026-03-01-01')
    >>> folder_before("01-03-2026") is None
    True
    """
    found = _find(folder, form)
    if found is None or not found[1].startswith("YYYY"):
        return None
    period, known = found
    return folder_of(period.start - _BACK[period.unit], known)


_BACK: Final = {"HH": timedelta(hours=28), "DD": timedelta(days=2), "MM": timedelta(days=1)}


def _find(folder: str, form: str | None) -> tuple[Period, str] | None:
    """Return the period that a folder is named by, and in which form."""
    for known in FORMS if form is None else (form,):
        if match := _pattern(known).fullmatch(folder):
            parts = match.groupdict()
            year, month, day, hour = (int(parts.get(part) or least) for part, least in _LEAST.items())
            try:
                start = datetime(year, month, day, hour, tzinfo=UTC)
            except ValueError:
                return None
            return Period(start, next(unit for unit in ("HH", "DD", "MM") if unit in parts)), known
    return None


def folder_of(moment: datetime, form: str) -> str:
    """Return the folder of a moment.

    >>> folder_of(datetime(2026, 11, 21, 9), "DD-MM-YYYY")
    '21-11-2026'
    """
    parts = {"YYYY": moment.year, "MM": moment.month, "DD": moment.day, "HH": moment.hour}
    return _PART.sub(lambda part: f"{parts[part[0]]:0{len(part[0])}}", form)


_LEAST: Final = {"YYYY": 1, "MM": 1, "DD": 1, "HH": 0}


@lru_cache
def _pattern(form: str) -> re.Pattern[str]:
    return re.compile(_PART.sub(lambda part: _PATTERNS[part[0]], form))
