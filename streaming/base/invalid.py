"""Faults in a file of the user, in the user's words instead of a library's."""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from streaming.base.errors import SettingsError, first_line
from streaming.base.nearest import did_you_mean


def read_toml(path: Path, kind: str, named_by: str) -> dict[str, Any]:
    """Return the content of a file.

    ``kind`` says what it is ("policy file"), ``named_by`` which setting or option names it.

    Raises:
        SettingsError: it can't be read, or is not valid TOML.
    """
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"The {kind} {path} does not exist: correct {named_by}.") from None
    except OSError as error:
        raise SettingsError(f"The {kind} {path} can't be read ({error.strerror}): correct {named_by}.") from None
    except RecursionError:
        raise SettingsError(f"The {kind} {path} is not valid TOML: its values nest too deep.") from None
    except ValueError as error:  # not TOML, not UTF-8, a number of 5,000 digits
        raise SettingsError(f"The {kind} {path} is not valid TOML: {first_line(error)}.") from None


_NAMED_MAX = 12
"""Number of known names that are listed if none is like the unknown one."""
_UNKNOWN = re.compile(r"(?:(?P<where>.*): )?Object contains unknown field `(?P<name>[^`]*)`.*", re.DOTALL)
"""msgspec's message about an unknown name, after where that is."""
_AT = re.compile(r"(?P<where>.*: )?(?P<said>Expected .*) - at `\$\.(?P<name>[^`]*)`", re.DOTALL)
"""msgspec's message about a value, then where that is."""
_TYPE = re.compile(r"`(\w+)`")
_TYPES = {"int": "a whole number", "str": "text", "float": "a decimal number", "bool": "true or false",
          "array": "a list", "object": "a table"}  # fmt: skip


def sentence(error: ErrorDetails, model: type[BaseModel], place: str = "Setting") -> str:
    """Return what pydantic found, without a full stop and without the value; a question has its mark.

    ``place`` begins the sentence, before the name of the setting; an unknown one is never of it.
    """
    path = written_path(error["loc"], model)
    if error["type"] == "extra_forbidden":
        *above, name = error["loc"]
        return unknown(path, str(name), names_at(model, above), everywhere=_names(model))
    text = error["msg"].removeprefix("Value error, ").replace("Input should", "should").rstrip(".")
    if error["type"] == "missing":
        text = "is missing"
    elif error["type"] == "union_tag_not_found":
        text = f"{_discriminator(error)} is missing"
    elif error["type"] == "union_tag_invalid":
        text = _of_another_kind(error)
    elif error["type"] == "literal_error" and (near := did_you_mean(str(error["input"]), _literals(model, error))):
        text = f"{text}: {near}"
    return f"{place} {path}: {text}".strip() if path else text


def of_parameter(name: str, error: Mapping[str, Any]) -> str:
    """Return what pydantic found in a parameter of a question, as a whole sentence."""
    known = re.findall(r"'([^']*)'", str(error.get("ctx", {}).get("expected", "")))
    near = did_you_mean(str(error.get("input")), known) if error["type"] == "literal_error" else None
    return ended(f"{name}: {error['msg']}" + (f": {near}" if near else ""))


def unknown_parameter(name: str, question: str, names: Iterable[str]) -> str:
    """Return the sentence for a parameter that a question does not have, with all that it has."""
    known = list(names)
    near = did_you_mean(name, known)
    return f"Unknown parameter {name} of {question}{f': {near}' if near else '.'} It has {', '.join(known) or 'none'}."


def ended(said: str) -> str:
    """Return a sentence of this module with its full stop; a question has its mark."""
    return said if said.endswith("?") else f"{said}."


def unknown(path: str, name: str, names: Sequence[str], everywhere: Iterable[str] = ()) -> str:
    """Return the sentence for an unknown setting, with the one that was meant or those that there are.

    ``names`` are those in its place, ``everywhere`` the full names of all settings.
    """
    near = did_you_mean(name, names) or _elsewhere(name, everywhere)
    if near is None and len(names) <= _NAMED_MAX:
        near = f"use {', '.join(names)}"
    return f"unknown setting {path}" + (f": {near}" if near else "")


def of_msgspec(message: str, names: Sequence[str]) -> str:
    """Return what msgspec found in a flat file of settings, with the setting that was meant."""
    if match := _UNKNOWN.fullmatch(message):
        where = f"{match['where']}: " if match["where"] else ""
        return where + unknown(match["name"], match["name"], names)
    if match := _AT.fullmatch(message):
        said = _TYPE.sub(lambda kind: _TYPES.get(kind[1], kind[1]), match["said"])
        return f"{match['where'] or ''}{match['name']}: {said[0].lower()}{said[1:]}"
    return message


def names_at(model: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """Return the names of the settings in a section."""
    kind: Any = model
    for part in path:
        kind = _inside(kind, part)
    return list(kind.model_fields) if _is_model(kind) else []


def written_path(loc: Sequence[str | int], model: type[BaseModel]) -> str:
    """Return the full name of a setting: numbers of a list from 1, without what only the library distinguishes."""
    parts, kind = [], model
    for part in loc:
        below = _inside(kind, part)
        if not _is_union(kind) or _is_model(_plain(kind)):
            parts.append(str(part + 1) if isinstance(part, int) else part)
        kind = below
    return ".".join(parts)


def _inside(kind: Any, part: str | int) -> Any:
    """Return the type of a part of a value; of a union its member with this name as `kind`."""
    kind = _plain(kind)
    if _is_model(kind):
        return kind.model_fields[part].annotation if part in kind.model_fields else None
    members = get_args(kind)
    if _is_union(kind):
        return next((one for one in members if part in _kinds(one)), None)
    return members[-1 if get_origin(kind) is dict else 0] if members else None


def _plain(kind: Any) -> Any:
    """Return a type without its annotations and without None."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    members = [one for one in get_args(kind) if one is not type(None)]
    return _plain(members[0]) if type(None) in get_args(kind) and len(members) == 1 else kind


def _is_union(kind: Any) -> bool:
    members = get_args(_plain(kind))
    return len(members) > 1 and all(map(_is_model, members))


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _kinds(member: Any) -> tuple[Any, ...]:
    field = member.model_fields.get("kind") if _is_model(member) else None
    return get_args(field.annotation) if field is not None else ()


def _names(model: type[BaseModel], above: str = "") -> Iterable[str]:
    for name, field in model.model_fields.items():
        kind = _plain(field.annotation)
        yield from _names(kind, f"{above}{name}.") if _is_model(kind) else [f"{above}{name}"]


def _elsewhere(name: str, everywhere: Iterable[str]) -> str | None:
    same = [full for full in everywhere if full.rpartition(".")[2] == name]
    return f"did you mean {' or '.join(same)}?" if same else None


def _discriminator(error: ErrorDetails) -> str:
    return str(error.get("ctx", {}).get("discriminator", "kind")).strip("'")


def _of_another_kind(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    kinds = re.findall(r"'([^']*)'", str(context.get("expected_tags", "")))
    near = did_you_mean(str(context.get("tag")), kinds) or f"use {', '.join(kinds)}"
    return f"unknown {_discriminator(error)} {context.get('tag')!r}: {near}"


def _literals(model: type[BaseModel], error: ErrorDetails) -> list[str]:
    kind: Any = model
    for part in error["loc"]:
        kind = _inside(kind, part)
    kind = _plain(kind)
    return [str(one) for one in get_args(kind)] if get_origin(kind) is Literal else []
