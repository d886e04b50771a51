"""The faults of the lab, each with the incidents that it must lead to, and those that it may.

Every group of a story has a track of its own: fault, cure and time to heal, one case after the other, while the other
groups have theirs. What is done to a broker concerns all groups, so it comes when all tracks are done. An incident that
no case of its group and time names is a false alarm; but for those that an open incident which is named absorbs.
"""

from dataclasses import dataclass, replace

REREADS = frozenset({"DUPLICATE_CONSUMPTION", "OFFSET_REGRESSION"})
"""Told of any hand-over in which messages were really consumed twice; as an info, which alerts nobody."""
HOOK, POLL, BOTH = SOURCES = ("hook", "poll", "both")
"""How a recording is folded: what the hooks told, what polls told, all of it."""
BROKER = "*"
"""The track of the faults that concern every group."""


@dataclass(frozen=True)
class Due:
    """An incident that must open after the fault: which, for what reason, and by which telemetry."""

    code: str
    sub_causes: frozenset[str] = frozenset()
    """One of them; empty: whatever it is."""
    by: tuple[str, ...] = (POLL, BOTH)
    of_client: bool = True
    """Whether it names the client that the fault was put on."""


@dataclass(frozen=True)
class Case:
    """One fault, how long it stays, and how long after the cure everything is as it was."""

    fault: str
    held: float
    heal: float
    due: tuple[Due, ...] = ()
    may: frozenset[str] = frozenset()
    """Further codes, and why, in the comment beside it."""
    may_after: frozenset[str] = frozenset()
    """The same, once the cure has begun; by hook alone it need not resolve."""
    alone: bool = False
    """Whether every incident is of the client that the fault was put on."""
    alerts_max: int | None = None
    """How many may alert beside ORDERED_QUEUE_STUCK, which nothing absorbs; None: as many as are named."""


@dataclass(frozen=True)
class Group:
    """A group of a story and what happens to it."""

    ordered: bool
    queues: int
    consumers: int
    cases: tuple[Case, ...]


def due(code, *sub_causes, by=(POLL, BOTH), of_client=True):
    """An incident that must open."""
    return Due(code, frozenset(sub_causes), by, of_client)


EVERY = SOURCES
BY_HOOK = (HOOK, BOTH)

FREEZE = Case(
    "freeze",
    held=105,
    heal=150,
    due=(
        due("LOCK_EXPIRED", by=EVERY),
        due("STALE_HEARTBEAT", by=BY_HOOK),
        due("CLIENT_UNRESPONSIVE"),
        due("ORDERED_QUEUE_STUCK", "OWNER_UNRESPONSIVE"),
    ),
)
PARTITION = Case("partition", held=90, heal=60, due=FREEZE.due, alone=True)
KILL = Case(
    "kill",
    held=95,
    heal=60,
    due=(due("LOCK_ORPHANED", by=EVERY),),
    may=frozenset({"ORDERED_QUEUE_STUCK", "DUPLICATE_CONSUMPTION", "LOCK_EXPIRED"}),
)
HANG = Case("hang", held=100, heal=60, due=(due("ORDERED_QUEUE_STUCK", "LISTENER_HUNG", "LISTENER_BLOCKED"),))
POISON = Case("poison", held=100, heal=60, due=(due("ORDERED_QUEUE_STUCK", "SUSPEND_LOOP", "LISTENER_BLOCKED"),))
STALL = Case("hang", held=130, heal=60, due=(due("QUEUE_STALLED"),))
SLOW_PULL = Case(
    "slow-pull",
    held=220,
    heal=90,
    due=(due("ORDERED_QUEUE_STUCK", "NOT_PULLING"), due("PULL_EXPIRED", by=EVERY)),
    may=frozenset({"LAG_GROWTH"}),
)
EXPRESSION = Case(
    "subscription",
    held=230,
    heal=60,
    due=(due("SUBSCRIPTION_INCONSISTENT", "EXPRESSION", by=EVERY, of_client=False),),  # of two nobody is the odd one
)
TOPIC_SET = Case(
    "topic-set",
    held=260,
    heal=400,
    due=(
        due("REBALANCE_STORM", "TOPIC_SET_FLIP", by=EVERY, of_client=False),
        due("SUBSCRIPTION_INCONSISTENT", "TOPIC_SET", by=EVERY, of_client=False),
    ),
    may=frozenset(
        {
            "QUEUE_UNASSIGNED",  # the share of who does not read the topic
            "PULL_EXPIRED",  # by hook alone the same: that a concurrent queue was given up, no call says
            "QUEUE_STALLED",
            "LAG_GROWTH",
            "REBALANCE_STALLED",
        }
    ),
)
SAME_ID = Case(
    "same-id",
    held=220,
    heal=150,
    due=(due("CLIENT_ID_COLLISION", by=EVERY),),
    may=frozenset({"QUEUE_UNASSIGNED", "LOCK_EXPIRED", "ORDERED_QUEUE_STUCK", "DUPLICATE_CONSUMPTION", "LAG_GROWTH"}),
)
STRATEGY = Case(
    "strategy",
    held=100,
    heal=60,
    due=(due("STRATEGY_MISMATCH", of_client=False),),
    may=frozenset({"QUEUE_UNASSIGNED", "LOCK_CONTENDED", "QUEUE_DOUBLE_OWNED", "ORDERED_QUEUE_STUCK"}),
)
MIXED = Case(
    "mixed",
    held=100,
    heal=60,
    due=(due("MIXED_CONSUME_MODE", of_client=False),),
    may=frozenset({"QUEUE_DOUBLE_OWNED", "DUPLICATE_CONSUMPTION"}),
)
NOBODY = Case(
    "leave",
    held=120,
    heal=60,
    due=(
        due("NO_ACTIVE_CLIENTS_WITH_LAG", of_client=False),
        due("ORDERED_QUEUE_STUCK", "UNASSIGNED", by=EVERY, of_client=False),
    ),
)
IDLE = Case("join", held=110, heal=40, due=(due("CONSUMER_IDLE", of_client=False),))
SHRINKS = frozenset(
    {
        "LOCK_CONTENDED",  # for the 30 s in which one client works with the former route, and another with the new one
        "ORDERED_QUEUE_STUCK",
        "PULL_EXPIRED",
        "QUEUE_DOUBLE_OWNED",  # really so, of a concurrent group, for as long
    }
)
"""What may be told of a topic that loses queues, which a healthy cluster's does not. Hooks see no routes: to them a
queue that is no more looks like one that its clients have given up (`hooks.released_queues`), or that nobody takes."""
GROWS = frozenset({"QUEUE_DOUBLE_OWNED"})
"""Of a concurrent group, really so: one client works with the new route and the other, for up to 20 s more, with the
former. The lab's clients said so themselves."""
HAND_OVERS = (
    Case("join", held=40, heal=40),
    Case("leave", held=40, heal=60),
    Case("add-queues", held=90, heal=90, may=GROWS, may_after=SHRINKS),
    Case("join", held=30, heal=30),
)

UNREACHABLE = (due("BROKER_UNREACHABLE", of_client=False),)
BACK = frozenset(
    {
        "TELEMETRY_GAP",
        "BROKER_LOCKS_LOST",
        "LOCK_EXPIRED",  # a client could not renew: it refuses to consume until its next turn, at most 20 s after
        # Clients tried again and again to reach a broker that stood, or took long to start. Then it lists each once for
        # every connection, dead or alive, until its scan after 120 s; the group shares its queues out among members who
        # are not there, so most of them are really nobody's, and questions go to connections that are dead. The lab's
        # clients said so themselves: the only consumer of a group had one queue of four for 140 s.
        "QUEUE_UNASSIGNED",
        "ORDERED_QUEUE_STUCK",
        "QUEUE_STALLED",
        "PULL_EXPIRED",
        "LOCK_CONTENDED",
        "STALE_HEARTBEAT",
        "CLIENT_UNRESPONSIVE",
        "REBALANCE_STORM",  # one for a group, of the connections that came and went
    }
)
BROKER_RESTART = Case("broker-restart", held=40, heal=150, due=UNREACHABLE, may=BACK)
BROKER_KILL = Case("broker-kill", held=40, heal=150, due=UNREACHABLE, may=BACK)
PAUSE = Case("broker-freeze", held=90, heal=420, due=UNREACHABLE, may=BACK)

# A whole answer of mqadmin lies within every hold: its round over all groups takes up to 25 s.
QUICK = {
    "orders": Group(True, 4, 2, (Case("hang", held=85, heal=25, due=HANG.due),)),
    "audit": Group(False, 4, 2, (Case("join", held=60, heal=30),)),
    "killed": Group(True, 4, 2, (Case("kill", held=80, heal=30, due=KILL.due, may=KILL.may),)),
    "poisoned": Group(True, 4, 1, (Case("poison", held=85, heal=25, due=POISON.due),)),
    "nobody": Group(True, 4, 1, (Case("leave", held=90, heal=20, due=NOBODY.due),)),
    "mixed": Group(True, 4, 1, (Case("mixed", held=75, heal=30, due=MIXED.due, may=MIXED.may),)),
    "parted": Group(True, 4, 2, (replace(PARTITION, heal=25),)),
}
ALL = {
    "orders": Group(True, 6, 3, HAND_OVERS),
    "audit": Group(False, 4, 2, (STALL,)),
    "frozen": Group(True, 4, 2, (FREEZE,)),
    "parted": Group(True, 4, 2, (PARTITION,)),
    "killed": Group(True, 4, 2, (KILL, MIXED)),
    "hung": Group(True, 4, 2, (HANG, POISON)),
    "slow": Group(True, 4, 1, (SLOW_PULL,)),
    "tags": Group(False, 4, 1, (EXPRESSION,)),
    "topics": Group(False, 4, 1, (TOPIC_SET,)),
    "twins": Group(True, 4, 2, (SAME_ID,)),
    "plans": Group(False, 4, 2, (STRATEGY,)),
    "nobody": Group(True, 4, 1, (NOBODY,)),
    "idle": Group(False, 2, 2, (IDLE,)),
}
BROKERS = {
    "orders": Group(True, 8, 3, ()),
    "audit": Group(False, 4, 2, ()),
    BROKER: Group(True, 0, 0, (BROKER_RESTART, BROKER_KILL, PAUSE)),
}
CALM = (
    Case("join", held=50, heal=50),
    Case("leave", held=40, heal=60),
    Case("freeze", held=6, heal=60),  # shorter than any limit: a lock is renewed every 20 s and lives 30 s
    Case("add-queues", held=100, heal=100, may=GROWS, may_after=SHRINKS),
    Case("leave", held=15, heal=45),
    Case("join", held=40, heal=40),
    Case("freeze", held=6, heal=40),
)
FLEET, FLEET_SIZE, FLEET_PACE_SECONDS = "fleet", 50, 3.0
ROLLOUT = (
    Case("one-by-one", held=0, heal=60),
    Case(
        "all-at-once",
        held=0,
        heal=330,  # a storm is over after 5 quiet minutes
        may=frozenset({"REBALANCE_STORM", "ORDERED_QUEUE_STUCK"}),  # stuck by locks that clients got while they left
        alerts_max=1,
    ),
)
ROLLOUTS = {FLEET: Group(True, 64, 0, ROLLOUT)}


def healthy(times, pause):
    """Nothing but hand-overs, each followed by so many more seconds of rest."""
    calm = tuple(replace(case, heal=case.heal + pause) for case in CALM) * times
    return {"orders": Group(True, 8, 3, calm), "audit": Group(False, 4, 2, calm[::-1])}


def hectic(times):
    """Without a rest: the same two clients come and go more than 6 times in 5 minutes, and that is a storm."""
    return {
        key: replace(group, cases=tuple(replace(case, may=case.may | {"REBALANCE_STORM"}) for case in group.cases))
        for key, group in healthy(times, pause=0).items()
    }


STORIES = {
    "quick": QUICK,
    "partition": {"parted": ALL["parted"]},
    "all": ALL,
    "brokers": BROKERS,
    "rollout": ROLLOUTS,
    "half-hour": hectic(3),
    "hour": healthy(3, pause=80),
}
