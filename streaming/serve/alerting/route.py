"""Select the channels for a transition."""

from fnmatch import fnmatchcase
from typing import NamedTuple

from rebalance_model.observe.effects import IncidentTransition
from streaming.queries.health import SEVERITY
from streaming.serve.alerting.config import AlertsConfig, Route


class Target(NamedTuple):
    """A channel to notify."""

    channel: str
    wait_ms: int
    """The maximum wait for further alerts of the group, in milliseconds."""


def targets(config: AlertsConfig, transition: IncidentTransition) -> list[Target]:
    """Return the channels of the matching routes, each once."""
    found: dict[str, Target] = {}
    for route in _routes(config, transition):
        for channel in route.channels:
            found.setdefault(channel, Target(channel, _wait(config, route, transition)))
    return list(found.values())


def remind_after(config: AlertsConfig, transition: IncidentTransition, channel: str) -> int:
    """Return the time until a channel is reminded, in milliseconds; 0: never. An Alertmanager reminds by itself."""
    to = config.channels.get(channel)
    if to is None or to.kind == "alertmanager":
        return 0
    for route in _routes(config, transition):
        if channel in route.channels and route.remind_after is not None:
            return route.remind_after
    return config.remind_after


def wait(config: AlertsConfig, transition: IncidentTransition, channel: str) -> int:
    """Return the maximum wait for further alerts of the group, in milliseconds."""
    for target in targets(config, transition):
        if target.channel == channel:
            return target.wait_ms
    return _wait(config, None, transition)


def _routes(config: AlertsConfig, transition: IncidentTransition) -> list[Route]:
    found = []
    for route in config.routes:
        if _fits(route, transition):
            found.append(route)
            if not route.further:
                break
    return found


def _fits(route: Route, transition: IncidentTransition) -> bool:
    return (
        SEVERITY[transition.severity].rank <= SEVERITY[route.severity].rank
        and any(fnmatchcase(transition.code, pattern) for pattern in route.codes)
        and any(fnmatchcase(transition.group, pattern) for pattern in route.groups)
        and any(fnmatchcase(transition.cluster, pattern) for pattern in route.clusters)
    )


def _wait(config: AlertsConfig, route: Route | None, transition: IncidentTransition) -> int:
    if any(fnmatchcase(transition.code, pattern) for pattern in config.at_once):
        return 0
    return config.group_wait if route is None or route.group_wait is None else route.group_wait
