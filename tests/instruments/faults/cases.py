"""The faults of the lab, each with the incidents that it requires, and those that it allows.

In a story every group has its own sequence of cases: fault, cure and time to recover, one case after the other, in
parallel with the other groups. Faults of a broker concern all groups, so they follow when all sequences are done. An
incident that no case of its group and time names is a false alarm, unless an open incident that is named explains it.
"""

from dataclasses import dataclass, replace

from rebalance_model.observe.group.deleted_group import GROUP_DELETED

REREADS = frozenset({"DUPLICATE_CONSUMPTION", "OFFSET_REGRESSION"})
"""Allowed as infos, which send no alert, after any hand-over in which messages were really consumed twice."""
HOOK, POLL, BOTH = SOURCES = ("hook", "poll", "both")
"""The telemetry that is folded: events of hooks, answers to polls, or both."""
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


EVERY = SOURCES
BY_HOOK = (HOOK, BOTH)

FREEZE = Case(
    "freeze",
    lasts=105,
    heal=150,
    due=(
        due("LOCK_EXPIRED", by=EVERY),
        due("STALE_HEARTBEAT", by=BY_HOOK),
        due("CLIENT_UNRESPONSIVE"),
        due("ORDERED_QUEUE_STUCK", "OWNER_UNRESPONSIVE"),
    ),
    # A client that is thawed may open another connection before the broker drops the dead one, which takes 120 s from
    # its last heartbeat. Until then it is listed twice (GHOST_CONNECTION), and the second share has really no owner.
    may=frozenset({"QUEUE_UNASSIGNED GHOST_CONNECTION"}),
)
PARTITION = Case("partition", lasts=90, heal=60, due=FREEZE.due, alone=True)
KILL = Case(
    "kill",
    lasts=95,
    heal=60,
    due=(due("LOCK_ORPHANED", by=EVERY),),
    may=frozenset({"ORDERED_QUEUE_STUCK", "DUPLICATE_CONSUMPTION", "LOCK_EXPIRED"}),
)
HANG = Case("hang", lasts=100, heal=60, due=(due("ORDERED_QUEUE_STUCK", "LISTENER_HUNG", "LISTENER_BLOCKED"),))
POISON = Case("poison", lasts=100, heal=60, due=(due("ORDERED_QUEUE_STUCK", "SUSPEND_LOOP", "LISTENER_BLOCKED"),))
STALL = Case("hang", lasts=130, heal=60, due=(due("QUEUE_STALLED"),))
SLOW_PULL = Case(
    "slow-pull",
    lasts=220,
    heal=90,
    due=(due("ORDERED_QUEUE_STUCK", "NOT_PULLING"), due("PULL_EXPIRED", by=EVERY)),
    may=frozenset({"LAG_GROWTH"}),
)
EXPRESSION = Case(
    "subscription",
    lasts=230,
    heal=60,
    due=(due("SUBSCRIPTION_INCONSISTENT", "EXPRESSION", by=EVERY, of_client=False),),  # of two nobody is the odd one
)
TOPIC_SET = Case(
    "topic-set",
    lasts=260,
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
    lasts=220,
    heal=150,
    due=(due("CLIENT_ID_COLLISION", by=EVERY),),
    may=frozenset({"QUEUE_UNASSIGNED", "LOCK_EXPIRED", "ORDERED_QUEUE_STUCK", "DUPLICATE_CONSUMPTION", "LAG_GROWTH"}),
)
STRATEGY = Case(
    "strategy",
    lasts=100,
    heal=60,
    due=(due("STRATEGY_MISMATCH", of_client=False),),
    may=frozenset({"QUEUE_UNASSIGNED", "LOCK_CONTENDED", "QUEUE_DOUBLE_OWNED", "ORDERED_QUEUE_STUCK"}),
)
MIXED = Case(
    "mixed",
    lasts=100,
    heal=60,
    due=(due("MIXED_CONSUME_MODE", of_client=False),),
    may=frozenset({"QUEUE_DOUBLE_OWNED", "DUPLICATE_CONSUMPTION"}),
)
NOBODY = Case(
    "leave",
    lasts=120,
    heal=60,
    due=(
        due("NO_ACTIVE_CLIENTS_WITH_LAG", of_client=False),
        due("ORDERED_QUEUE_STUCK", "UNASSIGNED", by=EVERY, of_client=False),
    ),
)
IDLE = Case("join", lasts=110, heal=40, due=(due("CONSUMER_IDLE", of_client=False),))
SHRINKS = frozenset(
    {
        "LOCK_CONTENDED",  # for the 30 s in which one client works with the former route, and another with the new one
        "ORDERED_QUEUE_STUCK",
        "PULL_EXPIRED",
        "QUEUE_DOUBLE_OWNED",  # correct for a concurrent group, for the same time
    }
)
"""Allowed for a topic that loses queues, which does not happen in a healthy cluster. Hooks do not see routes: to them a
queue that no longer exists looks like one that its clients have released (`hooks.released_queues`), or that no client
takes."""
GROWS = frozenset({"QUEUE_DOUBLE_OWNED"})
"""Correct for a concurrent group: one client uses the new route and the other, for up to 20 s more, the former one. The
answers of the lab's clients confirmed it."""
HAND_OVERS = (
    Case("join", lasts=40, heal=40),
    Case("leave", lasts=40, heal=60),
    Case("add-queues", lasts=90, heal=90, may=GROWS, may_after=SHRINKS),
    Case("join", lasts=30, heal=30),
)

UNREACHABLE = (due("BROKER_UNREACHABLE", of_client=False),)
BACK = frozenset(
    {
        "TELEMETRY_GAP",
        "BROKER_LOCKS_LOST",
        "LOCK_EXPIRED",  # a client could not renew: it refuses to consume until its next turn, at most 20 s after
        # Clients tried repeatedly to reach a broker that was frozen, or took long to start. Then it lists each client
        # once for every connection, dead or alive, until its scan after 120 s; the group divides its queues among
        # members that do not exist, so most queues are really unassigned, and requests go to dead connections. The
        # answers of the lab's clients confirmed it: the only consumer of a group had one queue of four for 140 s.
        "QUEUE_UNASSIGNED",
        "ORDERED_QUEUE_STUCK",
        "QUEUE_STALLED",
        "PULL_EXPIRED",
        "LOCK_CONTENDED",
        "STALE_HEARTBEAT",
        "CLIENT_UNRESPONSIVE",
        "REBALANCE_STORM",  # one per group, from the connections that came and went
    }
)
BROKER_RESTART = Case("broker-restart", lasts=40, heal=150, due=UNREACHABLE, may=BACK)
BROKER_KILL = Case("broker-kill", lasts=40, heal=150, due=UNREACHABLE, may=BACK)
PAUSE = Case("broker-freeze", lasts=90, heal=420, due=UNREACHABLE, may=BACK)

# Every fault lasts long enough for a complete answer of mqadmin, whose round over all groups takes up to 25 s.
QUICK = {
    "orders": Group(True, 4, 2, (Case("hang", lasts=85, heal=25, due=HANG.due),)),
    "audit": Group(False, 4, 2, (Case("join", lasts=60, heal=30),)),
    "killed": Group(True, 4, 2, (Case("kill", lasts=80, heal=30, due=KILL.due, may=KILL.may),)),
    "poisoned": Group(True, 4, 1, (Case("poison", lasts=85, heal=25, due=POISON.due),)),
    "nobody": Group(True, 4, 1, (Case("leave", lasts=90, heal=20, due=NOBODY.due),)),
    "mixed": Group(True, 4, 1, (Case("mixed", lasts=75, heal=30, due=MIXED.due, may=MIXED.may),)),
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
    Case("join", lasts=50, heal=50),
    Case("leave", lasts=40, heal=60),
    Case("freeze", lasts=6, heal=60),  # shorter than any limit: a lock is renewed every 20 s and valid for 30 s
    Case("add-queues", lasts=100, heal=100, may=GROWS, may_after=SHRINKS),
    Case("leave", lasts=15, heal=45),
    Case("join", lasts=40, heal=40),
    Case("freeze", lasts=6, heal=40),
)
FLEET, FLEET_SIZE, FLEET_PACE_SECONDS = "fleet", 50, 3.0
ROLLOUT = (
    Case("one-by-one", lasts=0, heal=60),
    Case(
        "all-at-once",
        lasts=0,
        heal=330,  # a storm is resolved after 5 quiet minutes
        may=frozenset(
            {"REBALANCE_STORM", "ORDERED_QUEUE_STUCK"}
        ),  # stuck because of locks that clients got while they left
        alerts_max=1,
    ),
)
ROLLOUTS = {FLEET: Group(True, 64, 0, ROLLOUT)}

NO_MATTER_WHO = {"of_client": False}


def _refused(fault: str, by_hook: str, by_polls: str) -> Group:
    """A concurrent group whose pulls a broker refuses; the sub-causes of both incidents."""
    reported = (
        due("PULL_REFUSED", by_hook, by=BY_HOOK, within=90),
        due("QUEUE_STALLED", by_polls, by=(POLL,), within=140),
    )
    return Group(False, 2, 1, (Case(fault, lasts=150, heal=60, due=reported),))


FIELD = {
    "switched": _refused("consume-disabled", "NO_PERMISSION", "NOTHING_RECEIVED"),
    "unread": _refused("write-only", "TOPIC_NOT_READABLE", "TOPIC_NOT_READABLE"),
    "absent": Group(
        False,
        2,
        0,
        (
            Case(
                "group-not-created",
                lasts=150,
                heal=100,
                due=(
                    due("STALE_HEARTBEAT", "GROUP_NOT_CREATED", by=BY_HOOK, within=60),
                    due("STALE_HEARTBEAT", "GROUP_NOT_CREATED", by=(POLL,), within=100),
                ),
            ),
        ),
    ),
    "cast": Group(
        False,
        2,
        2,
        (Case("broadcast", lasts=150, heal=100, due=(due("MIXED_MEMBERS", "MESSAGE_MODEL", by=EVERY, within=60),)),),
    ),
    "first": Group(
        True,
        2,
        0,
        (
            Case(
                "first-message",
                lasts=120,
                heal=60,
                due=(due("ORDERED_QUEUE_STUCK", "LISTENER_HUNG", "LISTENER_BLOCKED", by=EVERY, within=110),),
            ),
        ),
    ),
    "again": Group(
        False,
        2,
        1,
        (
            Case(
                "topic-recreated",
                lasts=0,
                heal=150,
                stays=frozenset({"OFFSET_REGRESSION"}),  # NEWEST_FELL is shown for ten minutes
                due=(
                    due("PULL_REFUSED", "TOPIC_NOT_EXIST", by=BY_HOOK, within=90),
                    due("OFFSET_REGRESSION", "NEWEST_FELL", by=EVERY, within=180),
                ),
            ),
        ),
    ),
    "deleted": Group(
        True,
        2,
        1,
        (
            Case(
                "group-deleted",
                lasts=120,  # a minute after the brokers have answered that they do not have the group
                heal=60,
                due=(
                    due("NO_ACTIVE_CLIENTS_WITH_LAG", within=100, resolution=GROUP_DELETED, **NO_MATTER_WHO),
                    due("ORDERED_QUEUE_STUCK", "UNASSIGNED", within=100, resolution=GROUP_DELETED, **NO_MATTER_WHO),
                    due("ORDERED_QUEUE_STUCK", "UNASSIGNED", by=(HOOK,), within=100, **NO_MATTER_WHO),
                ),
            ),
        ),
    ),
    "left": Group(
        False,
        2,
        1,
        (
            Case(
                "topic-unsubscribed",
                lasts=150,
                heal=100,
                # a hook sees no message that nobody has pulled
                due=(due("MESSAGES_STRANDED", "NOT_SUBSCRIBED", within=140, **NO_MATTER_WHO),),
            ),
        ),
    ),
}
"""Faults of public reports (`field`), each in a group of its own, at the same time."""

SOAK = {
    "orders": Group(True, 4, 2, ()),
    "audit": Group(False, 4, 1, ()),  # nothing happens to these two but the faults of a broker
    "frozen": Group(True, 4, 2, (FREEZE,)),
    "killed": Group(True, 4, 2, (KILL,)),
    "hung": Group(True, 4, 2, (HANG, POISON)),
    "nobody": Group(True, 4, 1, (NOBODY,)),
    BROKER: Group(True, 0, 0, (BROKER_RESTART, BROKER_KILL)),
}
"""Whose cases the soak repeats by a random choice."""


GIVEN_BACK = frozenset({"POP_RETURNED"})
"""Allowed where a client that pops goes without a word: what it had popped comes back, once."""


def _gone(fault):
    """A gRPC client that goes without a word; its proxy lists it, and renews its messages, until 120 s later."""
    gone = (due("PROXY_CLIENT_GONE", by=BY_HOOK, within=60),)
    # by polls the queue that it held stands alone
    return Case(fault, lasts=75, heal=140, due=gone, may=GIVEN_BACK | {"ORDERED_QUEUE_STUCK POP_BLOCKED"})


def _all_gone(*more):
    """Every client leaves; in a group in order its queues are stuck, too."""
    return Case("all-gone", lasts=110, heal=60, due=(due("NO_ACTIVE_CLIENTS_WITH_LAG", within=100, **ANY), *more))


def _returned(fault, sub_cause, lasts=75):
    """Messages that come back; by polls it is not seen why, and only after two minutes."""
    returned = due("POP_RETURNED", sub_cause, by=BY_HOOK, within=70, **ANY)
    return Case(fault, lasts=lasts, heal=100, due=(returned,), may=GIVEN_BACK)


def _blocked(fault, lasts=100):
    stuck = due("ORDERED_QUEUE_STUCK", "POP_BLOCKED", by=EVERY, within=95, **ANY)
    return Case(fault, lasts=lasts, heal=60, due=(stuck,))


ANY = {"of_client": False}
JOIN = Case("join", lasts=40, heal=40)
POP = {
    "pop": Group(
        False,
        4,
        2,
        (
            JOIN,
            _returned("poison", "REJECTED", lasts=100),
            _returned("slow", "EXPIRED"),
            Case(
                "hang",
                lasts=130,
                heal=120,
                due=(due("POP_NOT_ACKING", by=BY_HOOK, within=90), due("POP_STOPPED", "FULL", within=125)),
                # what it has popped comes back before a minute has shown that it acknowledges nothing
                may=GIVEN_BACK | {"POP_STOPPED"},
            ),
            _all_gone(),
        ),
        "remoting",
    ),
    "pops": Group(
        False,
        4,
        2,
        (
            # no call shows a hook that a connection was closed: by the hook alone it is as a frozen one
            Case("kill", lasts=60, heal=60, may=GIVEN_BACK | {"POP_STOPPED", "STALE_HEARTBEAT"}),
            Case(
                "freeze",
                lasts=85,
                heal=80,
                due=(
                    due("CLIENT_UNRESPONSIVE", within=50),
                    due("POP_STOPPED", by=BY_HOOK, within=50),
                    due("STALE_HEARTBEAT", by=BY_HOOK, within=80),
                ),
                may=GIVEN_BACK,  # a POP that was parked for it took messages along
            ),
            Case("pull-among-pops", lasts=80, heal=110, due=(due("MIXED_REQUEST_MODE", by=BY_HOOK, within=75, **ANY),)),
        ),
        "remoting",
    ),
    "fifo": Group(
        True,
        4,
        2,
        (
            JOIN,
            _blocked("poison"),
            _blocked("hang"),
            _gone("kill"),
            _all_gone(due("ORDERED_QUEUE_STUCK", "POP_BLOCKED", within=100, **ANY)),
        ),
        "grpc-push",
    ),
    "simple": Group(
        False,
        4,
        2,
        (
            Case("leave", lasts=40, heal=40),
            _returned("no-ack", "EXPIRED"),
            _returned("slow", "EXPIRED"),
            _gone("freeze"),
            _all_gone(),
        ),
        "grpc-simple",
    ),
    "push": Group(
        False,
        4,
        2,
        (
            _returned("poison", "REJECTED", lasts=100),
            Case(
                "hang",
                lasts=110,
                heal=100,
                due=(due("POP_HELD_LONG", by=BY_HOOK, within=95, **ANY),),
                may=GIVEN_BACK,
            ),
            _gone("kill"),
        ),
        "grpc-push",
    ),
}
"""The faults of consumers that pop; the groups are all in one lab."""


def pop_healthy(times):
    """Return groups that pop with joins, leaves and short freezes only, rarely enough to be no storm."""
    # a POP that was parked at the broker for a client that leaves may take a message along: an info, once
    calm = (
        Case("join", lasts=50, heal=80, may=GIVEN_BACK),
        Case("leave", lasts=40, heal=90, may=GIVEN_BACK),
        Case("freeze", lasts=4, heal=90),
        Case("join", lasts=30, heal=80, may=GIVEN_BACK),
        Case("leave", lasts=15, heal=100, may=GIVEN_BACK),
    ) * times
    return {
        key: Group(group.ordered, group.queues, group.consumers, calm[turn:] + calm[:turn], group.client)
        for turn, (key, group) in enumerate(POP.items())
        if key != "pops"
    }


def healthy(times, pause):
    """Return groups with hand-overs only, each followed by a further pause in seconds."""
    calm = tuple(replace(case, heal=case.heal + pause) for case in CALM) * times
    return {"orders": Group(True, 8, 3, calm), "audit": Group(False, 4, 2, calm[::-1])}


def hectic(times):
    """Return `healthy` without pauses: two clients join and leave more than 6 times in 5 minutes, which is a storm."""
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
    "soak": SOAK,
    "field": FIELD,
    "half-hour": hectic(3),
    "hour": healthy(3, pause=80),
    "pop": POP,
    "pop-quarter": pop_healthy(2),
    "pop-hour": pop_healthy(6),
}
LAB_OF = {"field": {"brokers": 2, "broker": {"timerWheelEnable": True}}}
"""Further settings of the lab of a story. Without its timer a broker 5.4.0 deletes a topic and answers with an error
(AdminBrokerProcessor.deleteTopicInBroker: a NullPointerException), so that mqadmin does not ask the next one."""
