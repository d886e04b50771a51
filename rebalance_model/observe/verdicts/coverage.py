"""What telemetry there is to judge a group by, and which rules are silent for want of theirs."""

from functools import lru_cache

import msgspec

from rebalance_model.observe.group.expectation import division, is_consumed_unlisted
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import GroupState

NEED_POLLS = (
    "QUEUE_UNASSIGNED",
    "ASSIGNMENT_MISMATCH",
    "STRATEGY_MISMATCH",
    "MIXED_CONSUME_MODE",
    "ROUTE_VIEW_SPLIT",
    "REBALANCE_STALLED",
    "CLIENT_UNRESPONSIVE",
    "CONSUMER_IDLE",
    "ASSIGNMENT_SKEW",
    "ZOMBIE_QUEUE",
    "UNLOCK_PENDING",
    "BROKER_UNREACHABLE",
    "CLOCK_SKEW",
)
NEED_OFFSETS = ("LAG_GROWTH", "NO_ACTIVE_CLIENTS_WITH_LAG")
"""Of polls, too: GET_CONSUME_STATS."""
NEED_HOOKS = ("LOCK_CONTENDED", "BROKER_LOCKS_LOST", "STALE_HEARTBEAT", "DUPLICATE_CONSUMPTION")
NEED_OWNERS = (
    "QUEUE_UNASSIGNED",
    "QUEUE_DOUBLE_OWNED",
    "ASSIGNMENT_MISMATCH",
    "REBALANCE_STALLED",
    "ROUTE_VIEW_SPLIT",
    "CONSUMER_IDLE",
    "ASSIGNMENT_SKEW",
    "PULL_EXPIRED",
)
"""Of groups whose members divide the queues, and show who has which."""
NEED_OFFSETS_OF_BROKER = ("ORDERED_QUEUE_STUCK", "QUEUE_STALLED", "LAG_GROWTH", "NO_ACTIVE_CLIENTS_WITH_LAG")
"""Broadcasting clients keep their offsets themselves: what a broker has of them are leftovers."""
NEED_ANSWERS = (
    "CLIENT_UNRESPONSIVE",
    "STRATEGY_MISMATCH",
    "MIXED_CONSUME_MODE",
    "ORDERED_QUEUE_STUCK",
    "QUEUE_STALLED",
    "ZOMBIE_QUEUE",
    "UNLOCK_PENDING",
    "LOCK_EXPIRED",
)
"""Of clients themselves (GET_CONSUMER_RUNNING_INFO), which those behind a proxy never give."""
_SILENT_BY_SHARING: dict[str, tuple[str, ...]] = {
    "BROADCAST": NEED_OWNERS + NEED_OFFSETS_OF_BROKER,
    "POPPED": (*NEED_OWNERS, "QUEUE_STALLED"),
    "ACTIVE": NEED_OWNERS,
    "PROXIED": (*NEED_OWNERS, "CID_VIEW_SPLIT", *NEED_ANSWERS),
    "UNLISTED": (*NEED_OWNERS, "CID_VIEW_SPLIT", "NO_ACTIVE_CLIENTS_WITH_LAG", *NEED_ANSWERS),
}
NEED_COMMITS = ("OFFSET_REGRESSION",)
"""Of hooks; or of polls (GET_CONSUME_STATS), which show only those that last."""


class Coverage(msgspec.Struct, frozen=True):
    """The sources of a group, as they are in JSON beside its health."""

    brokers: int
    hooks: int
    """Of how many of them a hook tells, and ticks."""
    polls: bool
    """Whether a collector is followed, and ticks."""
    brokers_answering: int
    members: int
    members_answering: int
    offsets: bool
    """Whether GET_CONSUME_STATS is answered."""
    silent_rules: tuple[str, ...] = ()
    """They say nothing, for want of a source or because they do not apply; not that all is well."""
    sharing: str = ""
    """How members share the queues, see `expectation.division`; UNLISTED: commits advance and no member is listed (its
    clients are behind a proxy in CLUSTER mode); empty: not known."""


def hooks_of(state: GroupState) -> int:
    """How many brokers have a hook that ticks."""
    return sum(view.hook is not None and view.told_by not in state.silent for view in state.views.values())


def coverage(state: GroupState, policy: Policy) -> str:
    """Return the sources of a group, and which rules are silent, as JSON."""
    polls = state.is_polled
    clients = [state.clients.get(m) for m in state.members]
    return _encoded(
        len(state.views),
        hooks_of(state),
        polls,
        sum(not view.failing for view in state.views.values()) if polls else 0,
        len(clients),
        sum(c is not None and c.answered > 0 and not c.unanswered for c in clients) if polls else 0,
        polls and any(queue.commit_offset is not None for queue in state.queues.values()),
        "UNLISTED" if is_consumed_unlisted(state, policy) else division(state),
    )


@lru_cache(maxsize=1024)
def _encoded(  # noqa: PLR0913, PLR0917  the fields of Coverage, in order; asked for at every event
    brokers: int,
    hooks: int,
    polls: bool,  # noqa: FBT001  in the order of the fields
    answering: int,
    members: int,
    heard: int,
    offsets: bool,  # noqa: FBT001  in the order of the fields
    sharing: str,
) -> str:
    silent = (
        (NEED_POLLS if not polls else ()) + (NEED_OFFSETS if not offsets else ()) + (NEED_HOOKS if not hooks else ())
    )
    if not (hooks or offsets):
        silent += NEED_COMMITS
    silent += _SILENT_BY_SHARING.get(sharing, ())
    return msgspec.json.encode(
        Coverage(brokers, hooks, polls, answering, members, heard, offsets, tuple(sorted({*silent})), sharing)
    ).decode()
