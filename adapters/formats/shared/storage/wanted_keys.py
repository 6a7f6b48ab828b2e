"""The keys to look for in the files of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.spark.merge.resolution import POS

_NUMBERS_A_KEY: Final = 32
"""How many whole numbers may lie between the least and the greatest key, for each key, to have a flag for each."""


@dataclass(frozen=True)
class WantedKeys:
    """Distinct keys of a table, in the types in which its files are read."""

    keys: pa.Table

    @property
    def names(self) -> list[str]:
        """The key columns."""
        return list(self.keys.column_names)

    @property
    def count(self) -> int:
        """How many keys there are."""
        return int(self.keys.num_rows)

    @cached_property
    def ranges(self) -> Mapping[str, tuple[int, int]]:
        """The least and the greatest key of each column of whole numbers, without columns that have NULLs."""
        return {
            name: (bounds["min"].as_py(), bounds["max"].as_py())
            for name in self.names
            if self.count and pa.types.is_integer(self.keys[name].type) and not self.keys[name].null_count
            if (bounds := pc.min_max(self.keys[name]))
        }

    def matching_indices(self, rows: pa.Table) -> np.ndarray[Any, Any]:
        """Return the ascending indices of the rows with wanted keys; types are those of the keys."""
        mask = np.ones(rows.num_rows, bool)
        for name in self.names:
            mask &= self._is_wanted(name, rows[name])
        indices = np.flatnonzero(mask)
        if len(self.names) == 1 or not len(indices):
            return indices
        columns = [rows[name].take(pa.array(indices)) for name in self.names]
        table = pa.table([*columns, pa.array(indices)], [*self.names, POS])
        matches = table.join(self.keys, self.names, join_type="left semi")[POS]
        return np.asarray(np.sort(matches.to_numpy()))

    def _is_wanted(self, name: str, values: pa.ChunkedArray) -> np.ndarray[Any, Any]:
        flags = self._flags.get(name)
        if flags is None or values.null_count:
            return np.asarray(pc.is_in(values, self.keys[name]).to_numpy())
        lowest, highest = self.ranges[name]
        numbers = _numbers(values)
        is_inside = (numbers >= lowest) & (numbers <= highest)
        return np.asarray(is_inside & flags.take(numbers - lowest, mode="clip"))

    @cached_property
    def _flags(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """Whether each number from the least to the greatest is a key, for columns of numbers close to each other.

        `pc.is_in` hashes all keys each time it is called, which takes longer than to look up a piece of a file.
        """
        flags = {}
        for name, (lowest, highest) in self.ranges.items():
            if highest - lowest < _NUMBERS_A_KEY * self.count:
                flags[name] = np.zeros(highest - lowest + 1, bool)
                flags[name][_numbers(self.keys[name]) - lowest] = True
        return flags


def _numbers(values: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """Return whole numbers in a type whose differences do not overflow."""
    return np.asarray(values.to_numpy(), np.int64)
