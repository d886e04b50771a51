"""Who gets which incidents, and when: the routes with their hours, and the channels for one incident."""

import msgspec

from rebalance_model.observe.effects import IncidentTransition
from streaming.serve.alerting.config import AlertRoute, AlertsConfig
from streaming.serve.alerting.route import targets
from streaming.serve.alerting.schedule import written_days


class RouteAt(msgspec.Struct, frozen=True):
    """A route, and whether its hours include a time."""

    route: int
    """Its number, from 1."""
    channels: tuple[str, ...]
    severity: str
    """The minimum severity."""
    codes: tuple[str, ...]
    groups: tuple[str, ...]
    clusters: tuple[str, ...]
    further: bool
    """Whether the following routes are evaluated as well."""
    hours: str
    """Days, hours and their zone; empty: at any time."""
    begins: int | None
    """When its hours begin, epoch milliseconds; None: they include the time."""


class Recipient(msgspec.Struct, frozen=True):
    """A channel that is notified of an incident."""

    channel: str
    kind: str
    route: int
    wait_ms: int
    """The maximum wait for further alerts of the group, in milliseconds."""
    begins: int | None
    """When the hours of its route begin, epoch milliseconds: it is notified then, if the incident is still open. None:
    they include the time."""


def routes_at(config: AlertsConfig, now: int) -> list[RouteAt]:
    """Return all routes, in the order in which they are evaluated."""
    return [
        RouteAt(
            route=number, channels=route.channels, severity=route.severity, codes=route.codes, groups=route.groups,
            clusters=route.clusters, further=route.further, hours=_hours(config, route),
            begins=_later(config.schedule(route).begins(now), now),
        )
        for number, route in enumerate(config.routes, 1)
    ]  # fmt: skip


def recipients(config: AlertsConfig, transition: IncidentTransition, now: int) -> list[Recipient]:
    """Return who is notified if an incident opens at a time, whatever explains or silences it."""
    return [
        Recipient(one.channel, config.channels[one.channel].kind, one.route, one.wait_ms, _later(one.begins, now))
        for one in targets(config, transition, now)
    ]


def _hours(config: AlertsConfig, route: AlertRoute) -> str:
    if not route.hours and not route.days:
        return ""
    parts = (*map(written_days, route.days), *map(str, route.hours))
    return " ".join((*parts, route.time_zone or config.time_zone))


def _later(begins: int, now: int) -> int | None:
    return begins if begins > now else None
