"""Who is told of what, and how: `conf/alerts.toml`, over it a file of the user's; checked before anything starts."""

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

from rebalance_model.observe.verdicts.rules import BROKER_RULES, CLIENT_RULES, GROUP_RULES, QUEUE_RULES
from streaming.errors import UserError
from streaming.settings import conf_file
from streaming.times import duration_ms

JOB_SILENT, SOURCE_SILENT = "JOB_SILENT", "SOURCE_SILENT"
"""The codes of the dead-man check, which are no rules of the observer."""
CODES = (*sorted({rule.code for rules in (QUEUE_RULES, CLIENT_RULES, BROKER_RULES, GROUP_RULES) for rule in rules}),
         JOB_SILENT, SOURCE_SILENT)  # fmt: skip
"""Every code that can be alerted."""


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
        raise ValueError(f"no incident has a code like {pattern!r}")
    return pattern


def _secret(value: object) -> object:
    return {"value": value} if isinstance(value, str) else value


Span = Annotated[int, BeforeValidator(_span)]
"""Milliseconds, written as 250ms, 90s, 30m, 2h or 1d."""
Code = Annotated[str, BeforeValidator(_known)]
Near = Annotated[str, AfterValidator(_near)]
"""A path relative to the alerts file."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class _Secret(_Section):
    """A value that may be secret: written down, or in a variable of the environment, or in a file."""

    value: str | None = Field(default=None, repr=False)
    env: str | None = None
    file: Near | None = None

    @model_validator(mode="after")
    def _one_place(self) -> "_Secret":
        if [self.value, self.env, self.file].count(None) != 2:
            raise ValueError('write the value, or {env = "NAME"}, or {file = "PATH"}')
        return self

    def read(self) -> str:
        """What it is now.

        Raises:
            UserError: the variable or the file is not there, or empty.
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
            raise UserError(f"The alerts need {where}, which is not there or empty: set it, or correct the channel.")
        return found.strip()


Secret = Annotated[_Secret, BeforeValidator(_secret)]


class AlertmanagerConfig(_Section):
    """A Prometheus Alertmanager, version 2 of its API."""

    kind: Literal["alertmanager"]
    url: Secret
    resend: Span = 60_000
    """How often what is open is sent again; without that it would time out there."""
    labels: dict[str, str] = {}
    """Further labels of every alert."""
    headers: dict[str, Secret] = {}
    timeout: Span = 10_000


class WebhookConfig(_Section):
    """Any HTTP server that takes JSON."""

    kind: Literal["webhook"]
    url: Secret
    template: Near | None = None
    """A Jinja template that makes the JSON; without one the message is sent as it is."""
    headers: dict[str, Secret] = {}
    timeout: Span = 10_000


class AppriseConfig(_Section):
    """Whatever Apprise knows: mail, Slack, DingTalk, WeCom, Lark, Telegram and more."""

    kind: Literal["apprise"]
    urls: Secret
    """Apprise URLs, separated by spaces or lines. They hold passwords, so they are never in the file itself."""

    @field_validator("urls")
    @classmethod
    def _elsewhere(cls, urls: _Secret) -> _Secret:
        if urls.value is not None:
            raise ValueError('Apprise URLs hold passwords: write {env = "NAME"} or {file = "PATH"}')
        return urls


ChannelConfig = Annotated[AlertmanagerConfig | WebhookConfig | AppriseConfig, Field(discriminator="kind")]


class Route(_Section):
    """Which alerts go to which channels; the first route that fits an alert is the only one, but for `further`."""

    channels: tuple[str, ...] = Field(min_length=1)
    codes: tuple[Code, ...] = ("*",)
    severity: Literal["info", "warning", "critical"] = "info"
    """At least so severe."""
    groups: tuple[str, ...] = ("*",)
    clusters: tuple[str, ...] = ("*",)
    further: bool = False
    """Look at the routes after this one, too."""
    group_wait: Span | None = None
    remind_after: Span | None = None


class Limit(_Section):
    """How much a channel is told; an Alertmanager has limits of its own."""

    messages: int = Field(ge=1)
    span: Span
    alerts: int = Field(ge=1)


class Retry(_Section):
    """When a channel that failed is tried again: twice as late each time."""

    first: Annotated[Span, Field(ge=100)]
    longest: Span


class DeadMan(_Section):
    """When silence itself is an alert; 0s: never."""

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
                    raise ValueError(f"route {number} names the channel {name!r}, which is none of [channels]")
        return self


def load_alerts(file: str) -> AlertsConfig:
    """Read and check a file over the defaults; an empty name: the defaults alone.

    Raises:
        UserError: in one sentence, what to change.
    """
    path = Path(file).expanduser() if file else conf_file("alerts.toml")
    try:
        given = tomllib.loads(path.read_text("utf-8"))
        defaults = tomllib.loads(conf_file("alerts.toml").read_text("utf-8"))
        return AlertsConfig.model_validate(_over(defaults, given), context={"folder": path.absolute().parent})
    except OSError:
        raise UserError(f"The alerts file {path} can't be read: correct alerts.file.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"The alerts file {path} is no valid TOML: {error}.") from None
    except ValidationError as error:
        raise UserError(f"The alerts file {path} can't be used: {_sentence(error)}.") from None


def _over(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The user's values over the defaults, in [limit], [retry] and [dead_man] one by one."""
    merged = {**defaults, **given}
    for name, section in defaults.items():
        if isinstance(section, dict) and isinstance(given.get(name), dict):
            merged[name] = {**section, **given[name]}
    return merged


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    where = " ".join(str(part + 1) if isinstance(part, int) else part for part in first["loc"])
    said = first["msg"].removeprefix("Value error, ").rstrip(".")
    return f"{where}: {said}" if where else said
