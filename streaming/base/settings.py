"""Settings: `conf/default.toml`, overridden by a user's file, overridden by the environment.

The sections are in `streaming.base.sections`; `effective_settings` says where each value comes from.
"""

import os
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Literal

import msgspec
from pydantic import BaseModel, Field, SecretStr, ValidationError, field_validator
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from pydantic_settings import SettingsError as UnreadableError

from rebalance_model.observe.policy import Policy
from streaming.base.errors import SettingsError
from streaming.base.invalid import ended, of_msgspec, read_toml, sentence
from streaming.base.sections.collector import Collector, Kafka, RocketMq, SourceSettings
from streaming.base.sections.job import Job, Quality, Runtime, Storage, Tables, spark_properties
from streaming.base.sections.lab import LabSettings
from streaming.base.sections.reporting import Alerts, Log, Otlp
from streaming.base.sections.web import HealthPorts, Metrics, Web
from streaming.base.terminal import CONFIG_VARIABLE


class Settings(BaseSettings):
    """Every setting, checked."""

    model_config = SettingsConfigDict(
        env_prefix="REBALANCE_WATCH_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    runtime: Runtime
    storage: Storage
    source: SourceSettings
    kafka: Kafka
    job: Job
    spark: dict[str, str | int | float | bool] = Field(repr=False)
    """Properties of Spark by their full names; any of them may be secret."""
    collector: Collector
    rocketmq: RocketMq
    lab: LabSettings
    web: Web
    tables: Tables
    quality: Quality
    metrics: Metrics
    otlp: Otlp
    health: HealthPorts
    log: Log
    alerts: Alerts

    _are_properties = field_validator("spark", mode="before")(spark_properties)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Give arguments priority over the environment, the user's file and the defaults, in this order."""
        del dotenv_settings, file_secret_settings
        user_file = os.environ.get(CONFIG_VARIABLE)
        given = read_toml(Path(user_file), "settings file", f"{CONFIG_VARIABLE} or --config") if user_file else {}
        return (
            init_settings,
            env_settings,
            InitSettingsSource(settings_cls, given),
            TomlConfigSettingsSource(settings_cls, Path(str(conf_file("default.toml")))),
        )

    @property
    def log_path(self) -> Path:
        """The file log's folder."""
        return Path(self.source.path).expanduser().resolve() if self.source.path else self.runtime.root / "log"


def conf_file(name: str) -> Path:
    """Return a file of `conf/`."""
    return Path(str(resources.files("conf").joinpath(name)))


def load_settings(**overrides: object) -> Settings:
    """Read and check the settings; ``overrides`` are sections as nested mappings.

    Raises:
        SettingsError: settings are invalid.
    """
    try:
        return Settings(**overrides)  # type: ignore[arg-type]  # pydantic checks them
    except ValidationError as error:
        raise SettingsError(*map(_sentence, error.errors())) from None
    except UnreadableError as error:
        section = str(error).split('"')[1]  # pydantic-settings names no more
        raise SettingsError(
            f"Setting {section}: one of its environment variables is not valid JSON. Write lists and tables as "
            f"""'["a", "b"]'."""
        ) from None


def _sentence(error: ErrorDetails) -> str:
    said = sentence(error, Settings)
    if error["type"] in {"extra_forbidden", "missing"}:
        return ended(said[0].upper() + said[1:])
    is_secret = not {"kafka", "otlp", "rocketmq", "spark", "storage", "web"}.isdisjoint(error["loc"])  # and never shown
    value = "" if is_secret or said.endswith("?") else f" (it is {error.get('input')!r})"
    return ended(said + value)


def load_policy(path: Path | None = None) -> Policy:
    """Read and check the thresholds (`conf/policy.toml` without ``path``).

    Raises:
        SettingsError: a threshold is invalid.
    """
    file = path or conf_file("policy.toml")
    try:
        return msgspec.convert(read_toml(file, "policy file", "--policy"), Policy)
    except msgspec.ValidationError as error:
        said = of_msgspec(str(error), Policy.__struct_fields__)
        raise SettingsError(ended(f"The policy file {file} can't be used: {said}")) from None


DEFAULT: Literal["default"] = "default"
_MASK = "***"


class EffectiveSetting(msgspec.Struct, frozen=True):
    """A setting by its full name, such as ``source.kind``."""

    name: str
    value: object
    """The value as JSON; of a secret only whether there is one."""
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
