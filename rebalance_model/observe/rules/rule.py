"""What a rule is: what it is about, how it is judged, what it rests on, what it means and what to do first."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.step import ClusterStep, GroupStep

Severity = Literal["info", "warning", "critical"]
Evidence: TypeAlias = dict[str, int | str | bool | None]
"""The numbers behind a verdict; what a person would check first, first."""
Unit = Literal["ms", "epoch_ms", "messages", "per_hour", "offset", "count", "flag", "text"]
"""What a field of evidence is.

A span (ms) or an instant (epoch_ms), a number of messages, messages or causes per hour, an offset in a queue, a number
of anything else, yes or no, or a name or several.
"""
Need = Literal[
    "HOOKS", "POLLS", "OFFSETS", "COMMITS", "OWNERS", "OFFSETS_OF_BROKER", "PULLS", "ANSWERS", "LISTS", "MEMBERS"
]
"""What a rule must have to say anything; `coverage` names the rules that go without.

- HOOKS, POLLS: events of a broker's hook, answers to a collector.
- OFFSETS: of polls, too: answers to GET_CONSUME_STATS.
- COMMITS: of hooks; or of GET_CONSUME_STATS, which shows only those that last.
- OWNERS: members that divide the queues, and show who has which.
- OFFSETS_OF_BROKER: offsets that the broker keeps. Of broadcasting clients, which keep theirs, it has leftovers.
- PULLS: messages that are pulled. A queue that is popped commits otherwise.
- ANSWERS: of clients themselves (GET_CONSUMER_RUNNING_INFO), which those behind a proxy never give.
- LISTS: brokers that all list the same clients. One with a proxy inside lists those of its own.
- MEMBERS: clients that some broker lists.
"""


class Holds(msgspec.Struct, frozen=True, gc=False):
    """What is wrong is there."""

    severity: Severity
    sub_cause: str = ""
    client_id: str | None = None
    """Whose fault it is, where it is one client's."""
    held: int | None = None
    """For how long it has held, milliseconds, where the evidence says so; None: since it was first judged so."""
    stamp: int | None = None
    """When what first shows it was stamped, which is in the incident's id; None: now."""


class Clear(msgspec.Struct, frozen=True, gc=False):
    """It is not there, on good evidence."""


CLEAR = Clear()
Verdict: TypeAlias = Holds | Clear | None
"""None: not known, or not yet. That freezes the rule for this subject: nothing opens or resolves, no time counts."""

Subject = TypeVar("Subject", MessageQueue, str)
StepT = TypeVar("StepT", GroupStep, ClusterStep)


class Advice(NamedTuple):
    """What a finding means, and the first thing to do: a sentence each."""

    what: str
    first_step: str


def _at_once(_: Policy) -> int:
    return 0


@dataclass(frozen=True)
class Rule(Generic[StepT, Subject]):
    """One rule; its subclass says what kind of subject it is about. `registry` checks it."""

    about: ClassVar[str]
    """What its subject is."""

    code: str
    judge: Callable[[StepT, Subject], Verdict]
    """Pure, total and cheap. What time alone may change it asks for by `Step.schedule_check`."""
    evidence: Callable[[StepT, Subject], Evidence]
    """Asked for at a transition only."""
    units: Mapping[str, Unit]
    """By field of the evidence. A name that ends in ``*`` is the beginning of the names of several fields."""
    advice: Mapping[str, Advice]
    """By sub-cause."""
    sub_causes: tuple[str, ...] = ("",)
    """What `judge` may give as `Holds.sub_cause`."""
    needs: tuple[Need, ...] = ()
    """Without any one of them the rule is silent."""
    open_after: Callable[[Policy], int] = _at_once
    """How long it must hold before it opens, milliseconds."""
    clear_after: Callable[[Policy], int] = _at_once
    """How long it must be clear before it resolves, milliseconds."""
    absorbed_by: tuple[str, ...] = ()
    """Codes of what explains it: while one of them is open, on the same queue, broker or group, it is its child."""

    def advise(self, sub_cause: str) -> Advice:
        """Return what the finding means by this sub-cause; raise LookupError where the rule has no advice for it."""
        found = self.advice.get(sub_cause)
        if found is None:
            msg = f"{self.code} has no advice for the sub-cause {sub_cause!r}"
            raise LookupError(msg)
        return found


class QueueRule(Rule[GroupStep, MessageQueue]):
    """A rule about one queue of a group."""

    about = "queue"


class ClientRule(Rule[GroupStep, str]):
    """A rule about one client of a group, by its id."""

    about = "client"


class BrokerRule(Rule[GroupStep, str]):
    """A rule about what a group has on one broker, by its name."""

    about = "broker"


class RebalanceRule(Rule[GroupStep, str]):
    """A rule about one rebalance of a group, by its id; "" for what no rebalance explains."""

    about = "rebalance"


class GroupRule(Rule[GroupStep, str]):
    """A rule about a group as a whole; its subject is ""."""

    about = "group"


class ClusterRule(Rule[ClusterStep, str]):
    """A rule about a broker or a collector, by its name, from broadcasts alone: the same for every group."""

    about = "cluster"
