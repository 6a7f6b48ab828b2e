"""Fixtures that tests of more than one folder use."""

from __future__ import annotations

from spark import make_lake as make_lake
from spark import spark as spark
