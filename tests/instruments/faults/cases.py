"""The faults of the lab's classic consumers and brokers, each with the incidents that it requires or allows."""

from tests.instruments.faults.case import BY_HOOK, EVERY, Case, due

REREADS = frozenset({"DUPLICATE_CONSUMPTION", "OFFSET_REGRESSION"})
"""Allowed as infos, which send no alert, after any hand-over in which messages were really consumed twice."""
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
    may_after=frozenset({"MESSAGES_STRANDED"}),  # nobody reads the topic of the one that left any more
    stays=frozenset({"MESSAGES_STRANDED"}),
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
