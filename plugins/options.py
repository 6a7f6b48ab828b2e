"""Validation of the options of a plugin by a pydantic model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ValidationError

from lakeward.core.errors import ConfigError
from lakeward.core.settings.secrets import SecretName
from lakeward.core.text.suggestions import nearest

M = TypeVar("M", bound=BaseModel)


def validated(
    model: type[M], values: Mapping[str, Any], where: str, *, also: Iterable[str] = (), within: str = ""
) -> M:
    """Return the options as an instance of `model`.

    `where` begins the error message, `within` is the path of the table in the settings, and `also` are keys that
    the table may have besides those of the model. Raises ConfigError that names each wrong key and the nearest
    known one.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        # Not `from error`: the ValidationError shows values of the file, which may be secrets.
        raise _config_error(error, model, where, also, within) from None


def keys_of(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the keys of a model as they are written in the settings."""
    return tuple(field.alias or name for name, field in model.model_fields.items())


def _named_secret(value: Any) -> Any:
    """Return the secret name of `{ env = "NAME" }` or `env:NAME`. Errors never show the value."""
    if isinstance(value, Mapping) and len(value) == 1:
        ((kind, name),) = value.items()
        value = f"{kind}:{name}" if isinstance(kind, str) and isinstance(name, str) else None
    try:
        return SecretName.read(value) if isinstance(value, str) else value if value is None else _not_named()
    except ConfigError:
        return _not_named()


def _not_named() -> Any:
    raise ValueError('a secret does not stand here: say where it is, as `{ env = "NAME" }` or `{ file = "PATH" }`')


NamedSecret: TypeAlias = Annotated[SecretName, BeforeValidator(_named_secret)]
"""The type of an option that names a secret. Settings never contain the secret itself."""


def _config_error(
    error: ValidationError, model: type[BaseModel], where: str, also: Iterable[str], within: str
) -> ConfigError:
    descriptions, hints = [], []
    for item in error.errors():
        path, section = _walk(model, item["loc"])
        if item["type"] == "extra_forbidden":
            descriptions.append(f"{_path_text(within, path[:-1])} has no key {path[-1]!r}")
            hints.append(nearest(path[-1], [*section, *also]))
        elif item["type"] == "missing":
            descriptions.append(f"{_path_text(within, path[:-1])} lacks the key {path[-1]!r}")
        elif item["type"] in ("model_type", "dict_type", "model_attributes_type"):
            descriptions.append(f"{_path_text(within, path)} must be a table of keys")
        elif item["type"] == "union_tag_not_found":
            descriptions.append(f"{_path_text(within, path)} lacks the key {item['ctx']['discriminator']}")
        elif item["type"] == "union_tag_invalid":
            tags = [tag.strip("' ") for tag in item["ctx"]["expected_tags"].split(",")]
            descriptions.append(f"{_path_text(within, path)}: there is no {_key_of(item)} {item['ctx']['tag']!r}")
            hints.append(nearest(item["ctx"]["tag"], tags) or f"There are {', '.join(tags)}.")
        else:
            message = item["msg"].removeprefix("Value error, ")
            descriptions.append(f"{_path_text(within, path)}: {message[:1].lower()}{message[1:]}")
    return ConfigError(
        f"{where}: the settings are not right",
        found="\n".join(dict.fromkeys(descriptions)),
        todo=" ".join(hint for hint in dict.fromkeys(hints) if hint)
        or "docs/reference/settings.md lists every key.",
    )


def _key_of(item: Any) -> str:
    """Return the discriminator key of a table."""
    return str(item["ctx"]["discriminator"]).strip("'")


def _path_text(within: str, path: Iterable[str]) -> str:
    """Return the path of a table or key as TOML writes it. Entries of lists are numbered from 1."""
    parts = [part if re.fullmatch(r"[\w-]+", part) else f'"{part}"' for part in path]
    inside = ".".join([*([within] if within else []), *parts])
    return f"[{inside}]" if inside else "the file"


def _walk(model: type[BaseModel], place: Sequence[int | str]) -> tuple[list[str], list[str]]:
    """Return the path of an error as it is shown, and the known keys of the table that it is in."""
    path: list[str] = []
    section: Any = model
    keys: list[str] = []
    for part in place:
        choices = [choice for choice in _choices(section) if _is_model(choice)]
        if len(choices) > 1:  # a discriminated union: the value of the discriminator is part of the place
            section = next((choice for choice in choices if part in _tags(choice)), None)
            continue
        if choices:
            section = choices[0]
            keys = [*keys_of(section)]
            named = {field.alias or name: field.annotation for name, field in section.model_fields.items()}
            section = named.get(str(part))
        else:  # a list, a table of tables of one model, or an unknown value
            keys = []
            (*_, section) = get_args(section) or (None,)
        path.append(str(part + 1) if isinstance(part, int) else part)
    return path, keys


def _choices(annotation: Any) -> tuple[Any, ...]:
    """Return the types that a value may have."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _tags(model: type[BaseModel]) -> set[Any]:
    """Return the possible values of the discriminator of a table."""
    fields = model.model_fields.values()
    return {
        tag for field in fields if get_origin(field.annotation) is Literal for tag in get_args(field.annotation)
    }


def _is_model(candidate: Any) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, BaseModel)
