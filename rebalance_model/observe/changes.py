"""Changes of the sources of a group, beside its events: they concern every group that a source reports."""

from collections.abc import Collection
from typing import NamedTuple, TypeAlias

from rebalance_model.observe.events import BrokerStatus, TelemetryLost
from rebalance_model.observe.state import Silence


class SourceSilent(NamedTuple):
    """A source is silent, or late: rules that depend on it are not judged."""

    source: str
    silence: Silence


class SourceBack(NamedTuple):
    """A silent source is back; telemetry that is missing from the silence proves nothing."""

    source: str


class HookRestarted(NamedTuple):
    """A broker has started, as its hook reports first: its members and locks are lost."""

    event: BrokerStatus


class BrokerRestarted(NamedTuple):
    """A broker has started, as polls report it; ignored if its own hook reports."""

    event: BrokerStatus


class EventsLost(NamedTuple):
    """A source could not send some events; a gap in the sequence shows whether the group is affected.

    Until then it may be: missing events of a hook from that time are not attributed to a client.
    """

    event: TelemetryLost


class ClusterChanged(NamedTuple):
    """Incidents of brokers or collectors have opened, changed, cleared or been resolved."""

    subjects: Collection[str]
    """The brokers and collectors."""


class SourceForgotten(NamedTuple):
    """A source that had been silent for long was forgotten."""

    source: str
    subjects: Collection[str]
    """The brokers that only it has reported, and which are forgotten with it."""


SourceChange: TypeAlias = (
    SourceSilent | SourceBack | HookRestarted | BrokerRestarted | EventsLost | ClusterChanged | SourceForgotten
)
