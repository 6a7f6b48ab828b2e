"""Folders that DMS names by commit date (`DatePartitionEnabled`), in every sequence and with every delimiter.

The text of some forms does not sort by date (`DD/MM/YYYY`), so no order is taken from a folder's name. Its date
only distinguishes files of the same name.
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
"""The forms of a folder's path, as `YYYY/MM/DD`.

No path of the years 1900 to 2199 has two of these forms. The year has another place in each, and begins with 19, 20
or 21. These are no months. Were they read as a day, the true month would be read as the beginning of the year, and
no year begins with 01 to 12.
"""

_PATTERNS: Final = {
    "YYYY": r"(?P<YYYY>(?:19|20|21)\d\d)",
    "MM": r"(?P<MM>0[1-9]|1[0-2])",
    "DD": r"(?P<DD>0[1-9]|[12]\d|3[01])",
    "HH": r"(?P<HH>[01]\d|2[0-3])",
}


@dataclass(frozen=True, slots=True)
class Period:
    """The hour, day or month of a date folder."""

    start: datetime
    unit: str

    def age(self, millis: int) -> int:
        """Return the number of such periods between the folder's and a time in milliseconds since 1970."""
        moment = datetime.fromtimestamp(millis / 1000, UTC)
        if self.unit == "MM":
            return 12 * (moment.year - self.start.year) + moment.month - self.start.month
        seconds = {"HH": 3600, "DD": 86400}[self.unit]
        return int((moment - self.start).total_seconds() // seconds)


def find_period(folder: str, form: str | None = None) -> Period | None:
    """Return the period of a folder by its name, or None if the name is no date of that form.

    With `form` None every form is tried.

    >>> find_period("21/11/2026").start == find_period("2026-11-21").start == find_period("11202621").start
    True
    >>> find_period("2026-11-21", "YYYY/MM/DD") is None
    True
    """
    match = _match_form(folder, form)
    return None if match is None else match[0]


def folder_before(folder: str, form: str | None = None) -> str | None:
    """Return a folder name that sorts before the folders of all later commits.

    None for a folder that is no date, and for forms that do not sort by date. DMS writes commits in their order. A
    folder is behind that of an older file only where `DatePartitionTimezone` was changed, by 26 hours at most.

    >>> folder_before("2026/03/01"), folder_before("202603"), folder_before("2026-03-02-05")
    ('2026/02/27', '202602', '2026-03-01-01')
    >>> folder_before("01-03-2026") is None
    True
    """
    match = _match_form(folder, form)
    if match is None or not match[1].startswith("YYYY"):
        return None
    period, matched_form = match
    return folder_of(period.start - _BACK[period.unit], matched_form)


_BACK: Final = {"HH": timedelta(hours=28), "DD": timedelta(days=2), "MM": timedelta(days=1)}


def _match_form(folder: str, form: str | None) -> tuple[Period, str] | None:
    """Return the period of a folder, and the form that its name has."""
    for candidate in FORMS if form is None else (form,):
        if match := _pattern(candidate).fullmatch(folder):
            parts = match.groupdict()
            year, month, day, hour = (int(parts.get(part) or least) for part, least in _LEAST.items())
            try:
                start = datetime(year, month, day, hour, tzinfo=UTC)
            except ValueError:
                return None
            return Period(start, next(unit for unit in ("HH", "DD", "MM") if unit in parts)), candidate
    return None


def folder_of(moment: datetime, form: str) -> str:
    """Return the date folder of a time.

    >>> folder_of(datetime(2026, 11, 21, 9), "DD-MM-YYYY")
    '21-11-2026'
    """
    parts = {"YYYY": moment.year, "MM": moment.month, "DD": moment.day, "HH": moment.hour}
    return _PART.sub(lambda part: f"{parts[part[0]]:0{len(part[0])}}", form)


_LEAST: Final = {"YYYY": 1, "MM": 1, "DD": 1, "HH": 0}


@lru_cache
def _pattern(form: str) -> re.Pattern[str]:
    return re.compile(_PART.sub(lambda part: _PATTERNS[part[0]], form))
