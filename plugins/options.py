"""Typed options: what a plugin does with its table of the settings."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from lakeward.core.errors import ConfigError

M = TypeVar("M", bound=BaseModel)


def validated(
    model: type[M], values: Mapping[str, Any], where: str, *, also: Iterable[str] = (), within: str = ""
) -> M:
    """Return the options as a model; raises ConfigError, in words and with the nearest key.

    `where` begins the message; `within` is the path of the table that the values are
    from, and `also` are keys that this table has beside those of the model.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _in_words(error, model, where, also, within) from error


def nearest(given: str, known: Iterable[str]) -> str | None:
    """Return a question that names the nearest known word, or None.

    >>> nearest("waerhouse", ["warehouse", "catalog"])
    "Did you mean 'warehouse'?"
    """
    near = difflib.get_close_matches(given, list(known), n=1)
    return f"Did you mean {near[0]!r}?" if near else None


def _in_words(
    error: ValidationError, model: type[BaseModel], where: str, also: Iterable[str], within: str
) -> ConfigError:
    found, hints = [], []
    for item in error.errors():
        path = [str(part) for part in item["loc"]]
        if item["type"] == "extra_forbidden":
            found.append(f"{_shown(within, path[:-1])} has no key {path[-1]!r}")
            hints.append(nearest(path[-1], [*_keys(model, path[:-1]), *also]))
        elif item["type"] == "missing":
            found.append(f"{_shown(within, path[:-1])} lacks the key {path[-1]!r}")
        elif item["type"] in ("model_type", "dict_type"):
            found.append(f"{_shown(within, path)} must be a table of keys")
        else:
            message = item["msg"].removeprefix("Value error, ")
            found.append(f"{_shown(within, path)}: {message[:1].lower()}{message[1:]}")
    return ConfigError(
        f"{where}: the settings are not right",
        found="\n".join(dict.fromkeys(found)),
        todo=" ".join(hint for hint in dict.fromkeys(hints) if hint) or "docs/settings.md lists every key.",
    )


def _shown(within: str, path: Iterable[str]) -> str:
    """Name a table of the settings, or a key in one, as TOML would."""
    parts = [part if re.fullmatch(r"[\w-]+", part) else f'"{part}"' for part in path]
    inside = ".".join([*([within] if within else []), *parts])
    return f"[{inside}]" if inside else "the file"


def _keys(model: type[BaseModel], path: Iterable[str]) -> list[str]:
    """Return the keys that the table at a path knows."""
    known: Any = model
    for part in path:
        if _is_model(known):
            field = known.model_fields.get(part)
            known = None if field is None else field.annotation
        else:  # a table of tables of one form, or nothing that is known
            (*_, known) = get_args(known) or (None,)
    return list(known.model_fields) if _is_model(known) else []


def _is_model(candidate: Any) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, BaseModel)
