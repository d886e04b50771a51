"""What telemetry there is to judge a group by, and which rules are silent for want of theirs."""

from functools import lru_cache

import msgspec

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
    """They say nothing, for want of a source; not that all is well."""


def hooks_of(state: GroupState) -> int:
    """How many brokers have a hook that ticks."""
    return sum(view.hook is not None and view.told_by not in state.silent for view in state.views.values())


def is_polled(state: GroupState) -> bool:
    """Whether a collector is followed, and ticks."""
    return state.is_polled


def coverage(state: GroupState) -> str:
    """As JSON."""
    polls = is_polled(state)
    clients = [state.clients.get(m) for m in state.members]
    return _encoded(
        len(state.views),
        hooks_of(state),
        polls,
        sum(not view.failing for view in state.views.values()) if polls else 0,
        len(clients),
        sum(c is not None and c.answered > 0 and not c.unanswered for c in clients) if polls else 0,
        polls and any(queue.commit_offset is not None for queue in state.queues.values()),
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
) -> str:
    silent = (
        (NEED_POLLS if not polls else ()) + (NEED_OFFSETS if not offsets else ()) + (NEED_HOOKS if not hooks else ())
    )
    if not (hooks or offsets):
        silent += NEED_COMMITS
    return msgspec.json.encode(
        Coverage(brokers, hooks, polls, answering, members, heard, offsets, tuple(sorted(silent)))
    ).decode()
