"""Parts of a story: groups, each with cases of faults and the incidents that a case requires or allows."""

from dataclasses import dataclass

HOOK, POLL, BOTH = SOURCES = ("hook", "poll", "both")
"""The telemetry that is folded: events of hooks, answers to polls, or both."""
EVERY = SOURCES
BY_HOOK = (HOOK, BOTH)
BROKER = "*"
"""The sequence of the faults that concern every group."""


@dataclass(frozen=True)
class Due:
    """An incident that must open after the fault: its code, its sub-causes, and the telemetry that shows it."""

    code: str
    sub_causes: frozenset[str] = frozenset()
    """The allowed sub-causes; empty: any."""
    by: tuple[str, ...] = (POLL, BOTH)
    of_client: bool = True
    """Whether it must name the client into which the fault was injected."""
    within: float | None = None
    """At most this many seconds after the fault was injected; None: at any time before the next fault."""
    resolution: str | None = None
    """The reason with which it must be resolved before the cure; None: it may be resolved by the cure."""


@dataclass(frozen=True)
class Case:
    """One fault, its duration, and the time to recover after the cure; seconds."""

    fault: str
    lasts: float
    heal: float
    due: tuple[Due, ...] = ()
    may: frozenset[str] = frozenset()
    """Further allowed codes, or codes with one sub-cause ("CODE SUB_CAUSE"), with the reason in a comment."""
    may_after: frozenset[str] = frozenset()
    """Codes allowed from the cure on; by hook alone they need not be resolved."""
    stays: frozenset[str] = frozenset()
    """Codes that may be open at the end: they are shown for longer than the story lasts."""
    alone: bool = False
    """Whether every incident must name the client into which the fault was injected."""
    alerts_max: int | None = None
    """The maximum number of alerts, not counting ORDERED_QUEUE_STUCK, which no incident explains; None: no limit."""


@dataclass(frozen=True)
class Group:
    """A group of a story, and its cases."""

    ordered: bool
    queues: int
    consumers: int
    cases: tuple[Case, ...]
    client: str = ""
    """How its consumers pop (`PopGroup.client`); empty: they pull."""


def due(code, *sub_causes, by=(POLL, BOTH), of_client=True, within=None, resolution=None):
    """Return an incident that must open."""
    return Due(code, frozenset(sub_causes), by, of_client, within, resolution)
