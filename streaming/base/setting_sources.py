"""The effective settings, each with the place that it comes from."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from pydantic import BaseModel, SecretStr
from pydantic_settings import EnvSettingsSource, TomlConfigSettingsSource

from streaming.base.settings import Settings
from streaming.base.shell import CONFIG_VARIABLE

DEFAULT: Literal["default"] = "default"
_MASK = "***"


class EffectiveSetting(msgspec.Struct, frozen=True):
    """A setting by its full name, such as ``source.kind``."""

    name: str
    value: object
    """As JSON has it; of a secret only whether there is one."""
    source: str
    """``environment``, the path of the user's file, or ``default``."""


def effective_settings(settings: Settings) -> Iterator[EffectiveSetting]:
    """Yield each setting, in the order of `conf/default.toml`."""
    given = list(_given())
    secrets = set(_secrets(settings))
    for name, value in _leaves(settings.model_dump(mode="json")):
        source = next((source for source, names in given if name in names), DEFAULT)
        is_secret = not secrets.isdisjoint(_prefixes(name))
        yield EffectiveSetting(name, _MASK if is_secret and value else value, source)


def _given() -> Iterator[tuple[str, set[str]]]:
    """Yield what sets something beside the defaults, the strongest first, with the names that it sets."""
    yield "environment", {name for name, _ in _leaves(EnvSettingsSource(Settings)())}
    if file := os.environ.get(CONFIG_VARIABLE):
        yield file, {name for name, _ in _leaves(TomlConfigSettingsSource(Settings, Path(file))())}


def _leaves(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _secrets(model: BaseModel, prefix: str = "") -> Iterator[str]:
    """Yield the names of secret fields: those that have no place in a `repr`; of a table that is all of its keys."""
    for key, field in type(model).model_fields.items():
        value = getattr(model, key)
        if not field.repr or isinstance(value, SecretStr):
            yield f"{prefix}{key}"
        elif isinstance(value, BaseModel):
            yield from _secrets(value, f"{prefix}{key}.")


def _prefixes(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))
