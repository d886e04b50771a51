"""Define a rule: its subject, verdicts, evidence, required telemetry and advice."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import IncidentKey
from rebalance_model.observe.step import ClusterStep, GroupStep, What

Severity = Literal["info", "warning", "critical"]
Evidence: TypeAlias = dict[str, int | str | bool | None]
"""The numbers behind a verdict, in the order in which a person would check them."""
Unit = Literal["ms", "epoch_ms", "messages", "per_hour", "offset", "count", "flag", "text"]
"""The unit of an evidence field.

ms: a duration. epoch_ms: an instant. messages: a number of messages. per_hour: messages or causes per hour. offset: an
offset in a queue. count: a number of anything else. flag: true or false. text: one or several names.
"""
Need = Literal[
    "HOOKS",
    "POLLS",
    "OFFSETS",
    "COMMITS",
    "OWNERS",
    "OFFSETS_OF_BROKER",
    "PULLS",
    "ANSWERS",
    "ORDER",
    "LISTS",
    "MEMBERS",
    "DEAD_LETTERS",
    "POPS",
]
"""Telemetry and group properties that a rule needs, each explained in README.md; `coverage` lists the rules that lack
one of theirs."""


OF_BROKER = ("BROKER_UNREACHABLE", "BROKER_NAME_SHARED")
"""Codes of the cluster's incidents that explain what follows at a broker (`Rule.absorbed_by`)."""


class Holds(msgspec.Struct, frozen=True, gc=False):
    """Verdict: the condition holds."""

    severity: Severity
    sub_cause: str = ""
    client_id: str | None = None
    """The client that causes it, if it is a single one."""
    duration_ms: int | None = None
    """The time that it has held by its evidence, milliseconds; None: since it was first judged to hold."""
    stamp: int | None = None
    """The timestamp of the first evidence, epoch milliseconds, used in the incident's id; None: now."""
    explained_by: tuple[IncidentKey, ...] = ()
    """The incidents that explain it if they are open, the first one first. One of
    `Rule.absorbed_by` comes before them."""


class Clear(msgspec.Struct, frozen=True, gc=False):
    """Verdict: the condition does not hold, on good evidence."""


CLEAR = Clear()
Verdict: TypeAlias = Holds | Clear | None
"""None: unknown, or not decided yet. It freezes the rule for the subject: nothing opens or resolves, no time counts."""

Subject = TypeVar("Subject", QueueFacts, str)
StepT = TypeVar("StepT", GroupStep, ClusterStep)


Inspection = Literal["THREADS", "MESSAGE", "MEMBERS", "COMPARE", "PROGRESS", "BROKERS", "DEAD_LETTERS", "ROUTES"]
"""The things to look at in the cluster itself; `streaming.queries.evidence` has the command for each.

- THREADS: the state and the threads of the incident's client.
- MESSAGE: the message at the queue's committed offset.
- MEMBERS: the connected clients with address, version and subscriptions.
- COMPARE: the states of all members, compared.
- PROGRESS: the group's offsets.
- BROKERS: the registered brokers.
- DEAD_LETTERS: the first message that was added to the dead-letter topic.
- ROUTES: the topic's route, by one name server.
"""


class Advice(NamedTuple):
    """One sentence on what a finding means, and one on what to do first."""

    what: str
    first_step: str
    inspect: tuple[Inspection, ...] = ()
    """The things to look at, in this order."""
    short: str = ""
    """The reason in a few words, after `Rule.title` and a colon; empty: the title says it."""


def _at_once(_: Policy) -> int:
    return 0


@dataclass(frozen=True)
class Rule(Generic[StepT, Subject]):
    """One rule; the subclass determines the kind of its subject. `registry` checks it."""

    about: ClassVar[str]
    """The kind of subject."""

    code: str
    judge: Callable[[StepT, Subject], Verdict]
    """Pure, total and cheap. If time alone may change the verdict, it schedules a check (`Step.schedule_check`)."""
    evidence: Callable[[StepT, Subject], Evidence]
    """Called at transitions only."""
    units: Mapping[str, Unit]
    """Units by evidence field. A name that ends in ``*`` is a prefix of several field names."""
    advice: Mapping[str, Advice]
    """The advice for each sub-cause."""
    title: str = ""
    """The problem in a few words, the same for all rules of a code. ``{subject}`` is the queue, client, broker or
    group, ``{group}`` the group."""
    sub_causes: tuple[str, ...] = ("",)
    """The values that `judge` may set as `Holds.sub_cause`."""
    concerns: int = 0
    """The flags of a rule about queues or clients: a subject must have one (`concerns`), or an incident, to be
    judged. A subject without them never holds, and needs no check."""
    needs: tuple[Need, ...] = ()
    """The rule is suspended if any of these is missing."""
    open_after: Callable[[Policy], int] = _at_once
    """The time that it must hold before it opens, milliseconds."""
    clear_after: Callable[[Policy], int] = _at_once
    """The time that it must be clear before it resolves, milliseconds."""
    absorbed_by: tuple[str, ...] = ()
    """Codes of parents: while one is open on the same queue, broker or group, an incident of this rule is its child."""
    alerts_as_child: bool = False
    """True if its incidents have alerts of their own under a parent that the verdict names (`Holds.explained_by`), but
    for those about all members (`lifecycle`)."""

    is_lasting: bool = False
    """True if an incident that comes back soon stays open for a while (`lifecycle.RETURNS_WITHIN`)."""

    def advise(self, sub_cause: str) -> Advice:
        """Return the advice for a sub-cause; raise LookupError if the rule has none for it."""
        advice = self.advice.get(sub_cause)
        if advice is None:
            msg = f"{self.code} has no advice for the sub-cause {sub_cause!r}"
            raise LookupError(msg)
        return advice


@dataclass(frozen=True)
class QueueRule(Rule[GroupStep, QueueFacts]):
    """A rule about one queue of a group."""

    about = "queue"

    of_popped: bool = False
    """True if it is about popped queues, too, which have no owner, no lock and no pulls."""


class ClientRule(Rule[GroupStep, str]):
    """A rule about one client of a group, by client id."""

    about = "client"


class BrokerRule(Rule[GroupStep, str]):
    """A rule about a group's state on one broker, by broker name."""

    about = "broker"


class RebalanceRule(Rule[GroupStep, str]):
    """A rule about one rebalance of a group, by its id; "" for moves that no rebalance explains."""

    about = "rebalance"


@dataclass(frozen=True)
class GroupRule(Rule[GroupStep, str]):
    """A rule about a group as a whole; its subject is ""."""

    follows: tuple[What, ...] = ()
    """The changes of which one must have come, for it to be judged of a group without incidents about the whole; after
    `ALL`, every rule is."""

    about = "group"


class ClusterRule(Rule[ClusterStep, str]):
    """A rule about a broker or a collector, by name, judged from broadcasts alone: the same for every group."""

    about = "cluster"
