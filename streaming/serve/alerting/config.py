"""Configuration of alerts: `conf/alerts.toml` and the user's file over it, validated before anything starts.

The hours of a route are days and times of day, by the clocks of a zone, at which its channels are notified.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta, tzinfo
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

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
from streaming.base.invalid import ended, read_toml, sentence
from streaming.base.language import LanguageCode
from streaming.base.nearest import did_you_mean
from streaming.base.settings import conf_file
from streaming.base.times import duration_ms, zone_of
from streaming.queries.health import Severity

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEK = len(DAYS)
_DAY_MINUTES = 24 * 60
_TIMES = re.compile(r"(\d{1,2}):(\d\d)\s*-\s*(\d{1,2}):(\d\d)", re.ASCII)


class Times(NamedTuple):
    """A part of the day in minutes since midnight; one that ends before it begins ends on the next day."""

    begin: int
    end: int

    def __str__(self) -> str:
        """Return the form that `times` reads."""
        return "-".join(f"{minutes // 60:02}:{minutes % 60:02}" for minutes in self)


def times(text: str) -> Times:
    """Read a part of the day such as ``09:00-18:00``, or ``22:00-06:00`` until the next morning.

    Raises:
        ValueError: the text is not that, or the part is empty.
    """
    found = _TIMES.fullmatch(text.strip())
    begin, end = (int(found[at]) * 60 + int(found[at + 1]) for at in (1, 3)) if found else (0, 0)
    is_clock = found is not None and int(found[2]) < 60 and int(found[4]) < 60
    if not is_clock or begin >= _DAY_MINUTES or end > _DAY_MINUTES:
        raise ValueError(f"invalid hours {text!r}: use 09:00-18:00, or 22:00-06:00 until the next morning")
    if begin == end:
        raise ValueError(f"the hours {text!r} are empty: omit `hours` for the whole day")
    return Times(begin, end)


def days(text: str) -> tuple[int, ...]:
    """Read a day of the week or a range of days, ``sat`` or ``mon-fri``; 0 is Monday.

    Raises:
        ValueError: the text is not that.
    """
    first, dash, last = (part.strip() for part in text.lower().partition("-"))
    last = last if dash else first
    if first not in DAYS or last not in DAYS:
        raise ValueError(f"invalid day {text!r}: use {', '.join(DAYS)}, or a range such as mon-fri")
    begin = DAYS.index(first)
    return tuple((begin + more) % _WEEK for more in range((DAYS.index(last) - begin) % _WEEK + 1))


def written_days(numbers: tuple[int, ...]) -> str:
    """Return the form that `days` reads."""
    names = DAYS[numbers[0]], DAYS[numbers[-1]]
    return "-".join(dict.fromkeys(names))


class Schedule(NamedTuple):
    """The hours in which the channels of a route are notified."""

    hours: tuple[Times, ...]
    """Parts of the day; none: the whole day."""
    days: frozenset[int]
    """Days of the week on which these parts begin; none: every day."""
    zone: tzinfo | None
    """None: the machine's own."""

    def is_active(self, now: int) -> bool:
        """Return whether a time (epoch milliseconds) is within the hours."""
        if not self.hours and not self.days:
            return True
        clock = datetime.fromtimestamp(now / 1000, UTC).astimezone(self.zone)
        minute, today = clock.hour * 60 + clock.minute, clock.weekday()
        for begin, end in self._parts():
            if self._has(today) and begin <= minute < (end if begin < end else _DAY_MINUTES):
                return True
            if end < begin and minute < end and self._has((today - 1) % _WEEK):
                return True
        return False

    def begins(self, now: int) -> int:
        """Return the next time at which the hours begin, or ``now`` within them; epoch milliseconds."""
        if self.is_active(now):
            return now
        today = datetime.fromtimestamp(now / 1000, UTC).astimezone(self.zone).date()
        begins = (
            self._epoch_ms(datetime.combine(day, time(part.begin // 60, part.begin % 60)))
            for day in (today + timedelta(days=more) for more in range(_WEEK + 1))
            if self._has(day.weekday())
            for part in self._parts()
        )
        return min((begin for begin in begins if begin > now), default=now)

    def _parts(self) -> tuple[Times, ...]:
        return self.hours or (Times(0, _DAY_MINUTES),)

    def _has(self, day: int) -> bool:
        return not self.days or day in self.days

    def _epoch_ms(self, clock: datetime) -> int:
        local = clock.replace(tzinfo=self.zone) if self.zone is not None else clock.astimezone()
        return int(local.timestamp()) * 1000


JOB_SILENT, SOURCE_SILENT, QUALITY_CHECK_FAILED = "JOB_SILENT", "SOURCE_SILENT", "QUALITY_CHECK_FAILED"
OWN_CODES = (JOB_SILENT, SOURCE_SILENT, QUALITY_CHECK_FAILED)
"""The codes of what rebalance-watch reports about itself, which are not rules of the core."""
CODES = (*sorted(RULE_CODES), *OWN_CODES)


def _span(value: object) -> int:
    try:
        return duration_ms(str(value))
    except UserError as error:
        raise ValueError(str(error).rstrip(".")) from None


def _near(path: str, info: ValidationInfo) -> str:
    folder: Path = (info.context or {}).get("folder", Path())
    return str(folder / Path(path).expanduser()) if path else path


def _checked_code(pattern: object) -> object:
    if isinstance(pattern, str) and not any(fnmatchcase(code, pattern) for code in CODES):
        near = did_you_mean(pattern, CODES)
        raise ValueError(f"no incident code matches {pattern!r}" + (f": {near}" if near else ""))
    return pattern


def _zone(name: str) -> str:
    try:
        zone_of(name)
    except UserError as error:
        raise ValueError(str(error).rstrip(".")) from None
    return name


def _several(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _secret(value: object) -> object:
    return {"value": value} if isinstance(value, str) else value


Span = Annotated[int, BeforeValidator(_span)]
"""A duration in milliseconds, written as 250ms, 90s, 30m, 2h or 1d."""
Code = Annotated[str, BeforeValidator(_checked_code)]
Hours = Annotated[tuple[Annotated[Times, BeforeValidator(lambda one: times(str(one)))], ...], BeforeValidator(_several)]
Days = Annotated[
    tuple[Annotated[tuple[int, ...], BeforeValidator(lambda one: days(str(one)))], ...], BeforeValidator(_several)
]
Zone = Annotated[str, AfterValidator(_zone)]
Near = Annotated[str, AfterValidator(_near)]
"""A path relative to the alerts file."""


class _AlertSection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class _Secret(_AlertSection):
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
            value, where = os.environ.get(self.env, ""), f"the environment variable {self.env}"
        else:
            where = f"the file {self.file}"
            try:
                value = Path(str(self.file)).read_text("utf-8")
            except OSError:
                value = ""
        if not value.strip():
            raise UserError(
                f"An alert channel requires {where}, which is missing or empty: set it or correct the channel."
            )
        return value.strip()


Secret = Annotated[_Secret, BeforeValidator(_secret)]


def literal(value: str) -> _Secret:
    """Return a value in the place of a secret that is somewhere else."""
    return _Secret(value=value)


class _Channel(_AlertSection):
    """The settings that all channels have."""

    language: LanguageCode | None = None
    """The language of its messages; None: that of the file."""


class AlertmanagerConfig(_Channel):
    """A Prometheus Alertmanager, version 2 of its API."""

    kind: Literal["alertmanager"]
    url: Secret
    resend: Span = 60_000
    """The interval in which open alerts are sent again, so that they do not expire there."""
    labels: dict[str, str] = {}
    """Additional labels of every alert."""
    headers: dict[str, Secret] = {}
    timeout: Span = 10_000


class WebhookConfig(_Channel):
    """An HTTP server that accepts JSON."""

    kind: Literal["webhook"]
    url: Secret
    service: Literal["dingtalk", "wecom", "lark", "feishu", "slack"] | None = None
    """The chat service to which the address belongs: its JSON is sent, and its answer is understood."""
    sign: Secret | None = None
    """The secret with which DingTalk or Lark verifies that a message is from here."""
    template: Near | None = None
    """A Jinja template of the JSON; without one it is the service's, or the message as it is."""
    headers: dict[str, Secret] = {}
    timeout: Span = 10_000

    @model_validator(mode="after")
    def _is_signed(self) -> "WebhookConfig":
        if self.sign is not None and self.service not in {"dingtalk", "lark", "feishu"}:
            raise ValueError("only dingtalk, lark and feishu verify a signature: omit sign, or correct service")
        return self


class PagerDutyConfig(_Channel):
    """PagerDuty, by its Events API v2."""

    kind: Literal["pagerduty"]
    routing_key: Secret
    """The integration key of a service."""
    url: Secret = literal("https://events.pagerduty.com/v2/enqueue")
    """The address; that of the European region is https://events.eu.pagerduty.com/v2/enqueue."""
    timeout: Span = 10_000


class OpsgenieConfig(_Channel):
    """Opsgenie, by its Alert API."""

    kind: Literal["opsgenie"]
    api_key: Secret
    """The key of an API integration."""
    url: Secret = literal("https://api.opsgenie.com")
    """The address; that of the European region is https://api.eu.opsgenie.com."""
    timeout: Span = 10_000


class AppriseConfig(_Channel):
    """Any service supported by Apprise: mail, Telegram and many more."""

    kind: Literal["apprise"]
    urls: Secret
    """Apprise URLs, separated by spaces or lines. They contain passwords, so they must not be in the file itself."""

    @field_validator("urls")
    @classmethod
    def _elsewhere(cls, urls: _Secret) -> _Secret:
        if urls.value is not None:
            raise ValueError('Apprise URLs contain passwords: use {env = "NAME"} or {file = "PATH"}')
        return urls


ChannelConfig = Annotated[
    AlertmanagerConfig | WebhookConfig | PagerDutyConfig | OpsgenieConfig | AppriseConfig, Field(discriminator="kind")
]


class AlertRoute(_AlertSection):
    """Maps alerts to channels; only the first matching route is used, unless it has `further`."""

    channels: tuple[str, ...] = Field(min_length=1)
    codes: tuple[Code, ...] = ("*",)
    severity: Severity = "info"
    """The minimum severity."""
    groups: tuple[str, ...] = ("*",)
    clusters: tuple[str, ...] = ("*",)
    further: bool = False
    """True if the following routes are evaluated as well."""
    hours: Hours = ()
    """The parts of the day in which the channels are notified; none: the whole day."""
    days: Days = ()
    """The days of the week on which these parts begin; none: every day."""
    time_zone: Zone | None = None
    """The zone of hours and days; None: that of the file."""
    group_wait: Span | None = None
    remind_after: Span | None = None


class Limit(_AlertSection):
    """The rate limit of a channel; an Alertmanager limits by itself."""

    messages: int = Field(ge=1)
    span: Span
    alerts: int = Field(ge=1)


class Retry(_AlertSection):
    """The delay before a failed channel is retried; it doubles with each failure."""

    first: Annotated[Span, Field(ge=100)]
    longest: Span


class DeadMan(_AlertSection):
    """The time without telemetry that raises an alert; 0s: never."""

    job: Span
    sources: Span
    forget: Span


class AlertsConfig(_AlertSection):
    """The whole file."""

    poll: Annotated[Span, Field(ge=100)]
    group_wait: Span
    remind_after: Span
    at_once: tuple[Code, ...]
    time_zone: Zone
    """The zone of the routes' hours and days."""
    language: LanguageCode
    """The language of the messages; a channel may have its own."""
    templates: Near
    limit: Limit
    retry: Retry
    dead_man: DeadMan
    routes: tuple[AlertRoute, ...] = ()
    channels: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")], ChannelConfig] = {}

    @model_validator(mode="after")
    def _routes_lead_somewhere(self) -> "AlertsConfig":
        for number, route in enumerate(self.routes, 1):
            for name in route.channels:
                if name not in self.channels:
                    near = did_you_mean(name, self.channels)
                    raise ValueError(
                        f"route {number} refers to channel {name!r}, which is not in [channels]"
                        + (f": {near}" if near else "")
                    )
        return self

    def language_of(self, channel: str) -> str:
        """Return the language of the messages to a channel."""
        found = self.channels.get(channel)
        return (found.language if found is not None else None) or self.language

    def schedule(self, route: AlertRoute) -> Schedule:
        """Return when the channels of a route are notified."""
        on = frozenset(day for days in route.days for day in days)
        return Schedule(route.hours, on, zone_of(route.time_zone or self.time_zone))


def load_alerts(file: str) -> AlertsConfig:
    """Read and validate a file over the defaults; with an empty name the defaults alone.

    Raises:
        SettingsError: the file is invalid; the message says what to change.
    """
    path = Path(file).expanduser() if file else conf_file("alerts.toml")
    given = read_toml(path, "alerts file", "alerts.file")
    defaults = tomllib.loads(conf_file("alerts.toml").read_text("utf-8"))
    try:
        return AlertsConfig.model_validate(_merged(defaults, given), context={"folder": path.absolute().parent})
    except ValidationError as error:
        said = sentence(error.errors(include_url=False)[0], AlertsConfig, place="")
        raise SettingsError(ended(f"Invalid alerts file {path}: {said}")) from None


def _merged(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the user's values over the defaults; in [limit], [retry] and [dead_man] key by key."""
    merged = {**defaults, **given}
    for name, section in defaults.items():
        if isinstance(section, dict) and isinstance(given.get(name), dict):
            merged[name] = {**section, **given[name]}
    return merged
