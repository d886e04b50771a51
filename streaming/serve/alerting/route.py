"""Select the channels for a transition, and list who gets which incidents, and when."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from rebalance_model.observe.effects import IncidentTransition
from streaming.queries.health import SEVERITY
from streaming.serve.alerting.config import AlertRoute, AlertsConfig, written_days


class Target(NamedTuple):
    """A channel to notify."""

    channel: str
    wait_ms: int
    """The maximum wait for further alerts of the group, in milliseconds."""
    begins: int
    """When the hours of its routes begin; the time of the decision if that is within them. Epoch milliseconds."""
    route: int
    """The number of the route that notifies it first, from 1."""


def targets(config: AlertsConfig, transition: IncidentTransition, now: int) -> list[Target]:
    """Return the channels of the matching routes, each once: by the route whose hours include the time or begin first.

    A route outside its hours matches as any other, and is the last one unless it has ``further``.
    """
    channels: dict[str, Target] = {}
    for number, route in matching(config, transition):
        begins = config.schedule(route).begins(now)
        for channel in route.channels:
            if channel not in channels or begins < channels[channel].begins:
                channels[channel] = Target(channel, _wait(config, route, transition), begins, number)
    return list(channels.values())


def target(config: AlertsConfig, transition: IncidentTransition, channel: str, now: int) -> Target:
    """Return how a channel is notified that has been before, also if it is of no matching route any more."""
    for one in targets(config, transition, now):
        if one.channel == channel:
            return one
    return Target(channel, _wait(config, None, transition), now, 0)


def remind_after(config: AlertsConfig, transition: IncidentTransition, channel: str) -> int:
    """Return the time until a channel is reminded, milliseconds; 0: never, for channels that remind by themselves."""
    if groups_by_itself(config, channel):
        return 0
    for _, route in matching(config, transition):
        if channel in route.channels and route.remind_after is not None:
            return route.remind_after
    return config.remind_after


_FOLLOW_INCIDENTS = {"alertmanager", "pagerduty", "opsgenie"}
"""The kinds of channels that group, limit, escalate and remind by themselves."""


def groups_by_itself(config: AlertsConfig, channel: str) -> bool:
    """Return whether a channel follows open incidents by itself, as an Alertmanager does, or is not configured."""
    to = config.channels.get(channel)
    return to is None or to.kind in _FOLLOW_INCIDENTS


def matching(config: AlertsConfig, transition: IncidentTransition) -> Iterator[tuple[int, AlertRoute]]:
    """Yield the routes for a transition with their numbers, from 1, whatever their hours."""
    for number, route in enumerate(config.routes, 1):
        if _fits(route, transition):
            yield number, route
            if not route.further:
                return


def _fits(route: AlertRoute, transition: IncidentTransition) -> bool:
    return (
        SEVERITY[transition.severity].rank <= SEVERITY[route.severity].rank
        and any(fnmatchcase(transition.code, pattern) for pattern in route.codes)
        and any(fnmatchcase(transition.group, pattern) for pattern in route.groups)
        and any(fnmatchcase(transition.cluster, pattern) for pattern in route.clusters)
    )


def _wait(config: AlertsConfig, route: AlertRoute | None, transition: IncidentTransition) -> int:
    if any(fnmatchcase(transition.code, pattern) for pattern in config.at_once):
        return 0
    return config.group_wait if route is None or route.group_wait is None else route.group_wait


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
    """True if the following routes are evaluated as well."""
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
