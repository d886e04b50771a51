"""MESSAGES_EXPIRING: a broker will soon delete messages that the group has not read.

A store deletes its oldest messages by age, or because its disk is full, whether they were read or not. Of the topic of
which a group is furthest behind, the collector asks where the stored messages begin (GET_TOPIC_STATS_INFO). At the
measured pace of that offset and of the group, the messages that it has not read are deleted within `expiring_within`.

DELETED: it has begun. The clients continue after what was deleted, once they ask for it (PULL_OFFSET_MOVED); then
MESSAGES_STRANDED has the number. Clear when the group gains on the deletion, or nothing waits.
"""

from rebalance_model.entities import MessageQueue, queue_order
from rebalance_model.observe.group import expiring
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, GroupRule, Holds, Verdict
from rebalance_model.observe.state import OldestOffset
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, _: str) -> Verdict:
    """Check the queues of which the broker was asked lately; nobody reads those of a group that never had members."""
    state = step.state
    left = _time_left(step) if state.members or state.no_members_since or state.advanced_at else {}
    if not left:
        return CLEAR
    step.schedule_check(min(oldest.at for _, oldest in left.values()) + expiring.FRESH_FOR + 1)
    lost = any(expiring.deleted_unread(state.queues[mq], step.now) for mq in left)
    return Holds("critical", "DELETED") if lost else Holds("warning")


def evidence(step: GroupStep, _: str) -> Evidence:
    """Return how much time is left, of how many queues, and the pace of both in the one that has the least."""
    left, queues = _time_left(step), step.state.queues
    if not left:
        return {"queues": 0}
    first = min(left, key=lambda mq: (left[mq][0], queue_order(mq)))
    queue, (time_left, oldest) = queues[first], left[first]
    deleted, read = expiring.per_hour(oldest) or (None, None)
    return {
        "time_left_ms": time_left,
        "queues": len(left),
        "queue_names": str(first),
        "messages_deleted": sum(expiring.deleted_unread(queues[mq], step.now) for mq in left),
        "lag": queue.lag,
        "messages_left": max(0, oldest.read_to - oldest.offset),
        "oldest_offset": oldest.offset,
        "commit_offset": queue.position,
        "deleted_per_hour": deleted,
        "consumed_per_hour": read,
    }


def _time_left(step: GroupStep) -> dict[MessageQueue, tuple[int, OldestOffset]]:
    """Return the milliseconds that are left of each queue that will soon lose messages, 0 if it has, and its oldest."""
    time_left: dict[MessageQueue, tuple[int, OldestOffset]] = {}
    for mq, queue in step.state.queues.items():
        if queue.oldest is None:
            continue
        left = 0 if expiring.deleted_unread(queue, step.now) else expiring.time_left(queue, step.now)
        if left is not None and left <= step.policy.expiring_within:
            time_left[mq] = left, queue.oldest
    return time_left


RULE = GroupRule(
    "MESSAGES_EXPIRING",
    judge,
    evidence,
    follows=("EXPIRING", "OFFSETS", "ENDED"),
    title="Messages will be deleted before {group} reads them",
    units={
        "time_left_ms": "ms",
        "queues": "count",
        "queue_names": "text",
        "messages_deleted": "messages",
        "lag": "messages",
        "messages_left": "messages",
        "oldest_offset": "offset",
        "commit_offset": "offset",
        "deleted_per_hour": "per_hour",
        "consumed_per_hour": "per_hour",
    },
    sub_causes=("", "DELETED"),
    needs=("OFFSETS", "OFFSETS_OF_BROKER"),
    is_lasting=True,
    advice={
        "": Advice(
            what=(
                "The broker deletes its oldest messages faster than the group reads: at the present pace it soon "
                "deletes messages that the group has not read."
            ),
            first_step=(
                "Let the broker keep its messages longer at once (mqadmin updateBrokerConfig -k fileReservedTime), or "
                "give its disk room if deletion follows from diskMaxUsedSpaceRatio; then make the group read faster."
            ),
            inspect=("PROGRESS", "BROKERS"),
        ),
        "DELETED": Advice(
            short="it has begun",
            what="The broker has deleted messages that the group has not read: no consumer will get them.",
            first_step=(
                "Let the broker keep the rest longer at once (mqadmin updateBrokerConfig -k fileReservedTime, or room "
                "on its disk); then find what keeps the group from reading."
            ),
            inspect=("PROGRESS", "BROKERS"),
        ),
    },
)
