"""Chains of keys: keys that key changes join are folded and trimmed together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakeward.core.events import Key


def chains(keys: Iterable[Key], links: Mapping[Key, set[Key]]) -> list[set[Key]]:
    """Group keys into chains, with all keys that key changes join to them.

    `links` has for each key those that one key change joins to it.
    """
    groups: list[set[Key]] = []
    grouped: set[Key] = set()
    for key in keys:
        if key in grouped:
            continue
        group, rest = set[Key](), [key]
        while rest:
            if (item := rest.pop()) not in group:
                group.add(item)
                rest.extend(links.get(item, ()))
        groups.append(group)
        grouped |= group
    return groups
