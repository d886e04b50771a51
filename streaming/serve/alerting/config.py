"""Configuration of alerts: `conf/alerts.toml` and the user's file over it, validated before anything starts."""

import os
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from rebalance_model.observe.rules.registry import CODES as RULE_CODES
from streaming.base.errors import SettingsError, UserError
from streaming.base.settings import conf_file
from streaming.base.times import duration_ms
from streaming.queries.health import Severity

JOB_SILENT, SOURCE_SILENT = "JOB_SILENT", "SOURCE_SILENT"
"""The codes of the dead-man check, which are not rules of the core."""
CODES = (*sorted(RULE_CODES), JOB_SILENT, SOURCE_SILENT)
"""All codes that alerts may have."""


def _span(value: object) -> int:
    try:
        return duration_ms(str(value))
    except UserError as error:
        raise ValueError(str(error).rstrip(".")) from None


def _near(path: str, info: ValidationInfo) -> str:
    folder: Path = (info.context or {}).get("folder", Path())
    return str(folder / Path(path).expanduser()) if path else path


def _known(pattern: str) -> str:
    if not any(fnmatchcase(code, pattern) for code in CODES):
        raise ValueError(f"no incident code matches {pattern!r}")
    return pattern


def _secret(value: object) -> object:
    return {"value": value} if isinstance(value, str) else value


Span = Annotated[int, BeforeValidator(_span)]
"""A duration in milliseconds, written as 250ms, 90s, 30m, 2h or 1d."""
Code = Annotated[str, BeforeValidator(_known)]
Near = Annotated[str, AfterValidator(_near)]
"""A path relative to the alerts file."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class _Secret(_Section):
    """A possibly secret value, given directly, in an environment variable or in a file."""

    value: str | None = Field(default=None, repr=False)
    env: str | None = None
    file: Near | None = None

    @model_validator(mode="after")
    def _one_place(self) -> "_Secret":
        if [self.value, self.env, self.file].count(None) != 2:
            raise ValueError('use a value, {env = "NAME"} or {file = "PATH"}')
        return self

    def read(self) -> str:
        """Read the current value.

        Raises:
            UserError: the variable or file is missing or empty.
        """
        if self.value is not None:
            return self.value
        if self.env is not None:
            found, where = os.environ.get(self.env, ""), f"the environment variable {self.env}"
        else:
            where = f"the file {self.file}"
            try:
                found = Path(str(self.file)).read_text("utf-8")
            except OSError:
                found = ""
        if not found.strip():
            raise UserError(
                f"An alert channel requires {where}, which is missing or empty: set it or correct the channel."
            )
        return found.strip()


Secret = Annotated[_Secret, BeforeValidator(_secret)]


class AlertmanagerConfig(_Section):
    """A Prometheus Alertmanager, version 2 of its API."""

    kind: Literal["alertmanager"]
    url: Secret
    resend: Span = 60_000
    """The interval in which open alerts are sent again, so that they do not expire there."""
    labels: dict[str, str] = {}
    """Additional labels of every alert."""
    headers: dict[str, Secret] = {}
    timeout: Span = 10_000


class WebhookConfig(_Section):
    """An HTTP server that accepts JSON."""

    kind: Literal["webhook"]
    url: Secret
    template: Near | None = None
    """A Jinja template of the JSON; without one the message is sent as it is."""
    headers: dict[str, Secret] = {}
    timeout: Span = 10_000


class AppriseConfig(_Section):
    """Any service supported by Apprise: mail, Slack, DingTalk, WeCom, Lark, Telegram and more."""

    kind: Literal["apprise"]
    urls: Secret
    """Apprise URLs, separated by spaces or lines. They contain passwords, so they must not be in the file itself."""

    @field_validator("urls")
    @classmethod
    def _elsewhere(cls, urls: _Secret) -> _Secret:
        if urls.value is not None:
            raise ValueError('Apprise URLs contain passwords: use {env = "NAME"} or {file = "PATH"}')
        return urls


ChannelConfig = Annotated[AlertmanagerConfig | WebhookConfig | AppriseConfig, Field(discriminator="kind")]


class Route(_Section):
    """Maps alerts to channels; only the first matching route is used, unless it has `further`."""

    channels: tuple[str, ...] = Field(min_length=1)
    codes: tuple[Code, ...] = ("*",)
    severity: Severity = "info"
    """The minimum severity."""
    groups: tuple[str, ...] = ("*",)
    clusters: tuple[str, ...] = ("*",)
    further: bool = False
    """Whether the following routes are evaluated as well."""
    group_wait: Span | None = None
    remind_after: Span | None = None


class Limit(_Section):
    """The rate limit of a channel; an Alertmanager limits by itself."""

    messages: int = Field(ge=1)
    span: Span
    alerts: int = Field(ge=1)


class Retry(_Section):
    """The delay before a failed channel is retried; it doubles with each failure."""

    first: Annotated[Span, Field(ge=100)]
    longest: Span


class DeadMan(_Section):
    """The time without telemetry that raises an alert; 0s: never."""

    job: Span
    sources: Span
    forget: Span


class AlertsConfig(_Section):
    """The whole file."""

    poll: Annotated[Span, Field(ge=100)]
    group_wait: Span
    remind_after: Span
    at_once: tuple[Code, ...]
    templates: Near
    limit: Limit
    retry: Retry
    dead_man: DeadMan
    routes: tuple[Route, ...] = ()
    channels: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")], ChannelConfig] = {}

    @model_validator(mode="after")
    def _routes_lead_somewhere(self) -> "AlertsConfig":
        for number, route in enumerate(self.routes, 1):
            for name in route.channels:
                if name not in self.channels:
                    raise ValueError(f"route {number} refers to channel {name!r}, which is not in [channels]")
        return self


def load_alerts(file: str) -> AlertsConfig:
    """Read and validate a file over the defaults; with an empty name the defaults alone.

    Raises:
        SettingsError: the file is invalid; the message says what to change.
    """
    path = Path(file).expanduser() if file else conf_file("alerts.toml")
    try:
        given = tomllib.loads(path.read_text("utf-8"))
        defaults = tomllib.loads(conf_file("alerts.toml").read_text("utf-8"))
        return AlertsConfig.model_validate(_over(defaults, given), context={"folder": path.absolute().parent})
    except OSError:
        raise SettingsError(f"Cannot read the alerts file {path}: correct alerts.file.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"The alerts file {path} is not valid TOML: {error}.") from None
    except ValidationError as error:
        raise SettingsError(f"Invalid alerts file {path}: {_sentence(error)}.") from None


def _over(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the user's values over the defaults; in [limit], [retry] and [dead_man] key by key."""
    merged = {**defaults, **given}
    for name, section in defaults.items():
        if isinstance(section, dict) and isinstance(given.get(name), dict):
            merged[name] = {**section, **given[name]}
    return merged


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    where = " ".join(str(part + 1) if isinstance(part, int) else part for part in first["loc"])
    text = first["msg"].removeprefix("Value error, ").rstrip(".")
    return f"{where}: {text}" if where else text
