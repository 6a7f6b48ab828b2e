"""Numbers of messages that Arrow parsed, and which of them are certainly those that were written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.sources.messages.decoded import TINY

_TINY_FLOAT: Final = "[1-9][0-9.]*[eE]-[0-9]{2}|[.]0{37}"
"""Matches a text with a number so close to 0 that a float may be 0."""

_EXPONENT: Final = "[0-9][eE][+-]?[0-9]"


@dataclass(frozen=True)
class ExactNumbers:
    """Finds the parsed cells that are exactly the numbers in the texts of their messages, `bodies`.

    A text of half a kilobyte takes longer to search than to parse, so only texts that may have such a number are
    searched, and each once. Without texts, numbers were sent in the form in which they are parsed.
    """

    bodies: pa.Array | None

    def are_exact(self, cells: pa.Array) -> pa.Array | pa.Scalar:
        """Return which numbers of a column are certainly exact; whole numbers always are."""
        if pa.types.is_decimal(cells.type):
            return self._are_exact_decimals(cells)
        if not pa.types.is_floating(cells.type):
            return pa.scalar(True)
        pattern = TINY if pa.types.is_float64(cells.type) else _TINY_FLOAT
        is_zero = pc.fill_null(pc.equal(cells, 0), False)
        is_tiny = self._match(is_zero, pattern)
        return pc.and_(pc.fill_null(pc.is_finite(cells), True), pc.invert(is_tiny))

    def _are_exact_decimals(self, cells: pa.Array) -> pa.Array:
        is_short = pc.invert(pc.match_substring(decimal_texts(cells), "E"))
        return pc.fill_null(pc.and_(is_short, self._has_no_exponent), True)

    @cached_property
    def _has_no_exponent(self) -> pa.Array | pa.Scalar:
        if self.bodies is None:
            return pa.scalar(True)
        return pc.invert(pc.match_substring_regex(self.bodies, _EXPONENT))

    def _match(self, is_candidate: pa.Array, pattern: str) -> pa.Array | pa.Scalar:
        """Return which of the texts that `is_candidate` selects match a pattern."""
        if self.bodies is None:
            return pa.scalar(False)
        places = pc.indices_nonzero(is_candidate)
        is_match = pc.fill_null(pc.match_substring_regex(self.bodies.take(places), pattern), False)
        matches = np.zeros(len(is_candidate), bool)
        matches[places.filter(is_match)] = True
        return pa.array(matches)


def decimal_texts(values: pa.Array) -> pa.Array:
    """Return decimals as texts; 0 is written without the exponent that Arrow would write."""
    return pc.if_else(pc.equal(values, pa.scalar(0, values.type)), "0", values.cast(pa.string()))
