"""MESSAGES_STRANDED: messages wait in queues that the group no longer consumes, and no member is at fault.

QUEUE_REMOVED: the topic has fewer read queues than before. Clients drop the others
(RebalanceImpl.updateProcessQueueTableInRebalance), and what was not consumed of them stays there. NOT_SUBSCRIBED: all
members have stopped to subscribe a topic, on purpose or by a wrong name. BROKER_GONE: a broker was taken out of the
cluster before everything was consumed. NOT_READ: by hooks alone, which see no route, a topic seems to have lost queues
(`released_queues`); what they had pulled and not committed waits. One incident tells the number for all such
queues, as it was last reported: at least as many wait. Clear when the queues are consumed again, when nothing waits, or
after `group_memory`.
"""

from itertools import groupby

from rebalance_model.entities import MessageQueue, queue_order
from rebalance_model.observe.group.ended_queues import waiting
from rebalance_model.observe.group.expectation import broadcasts
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, GroupRule, Holds, Verdict
from rebalance_model.observe.state import QueueState
from rebalance_model.observe.step import GroupStep

NAMED_MAX = 10
"""At most this many topics and brokers are named."""


def judge(step: GroupStep, _: str) -> Verdict:
    """Check whether messages wait in queues that have ended recently."""
    if broadcasts(step.state):
        return CLEAR
    found = _stranded(step)
    if not found:
        return CLEAR
    ends = [queue.ended.since for queue in found.values() if queue.ended is not None]
    step.schedule_check(min(ends) + step.policy.group_memory + 1)
    return Holds("warning", _why(found))


def evidence(step: GroupStep, _: str) -> Evidence:
    """Return how many messages wait at least, in which queues, and until when they had an owner."""
    found = _stranded(step)
    owned = [queue.released_at for queue in found.values() if queue.released_at]
    return {
        "messages": sum(waiting(queue) or 0 for queue in found.values()),
        "queues": len(found),
        "queue_names": _names(sorted(found, key=queue_order)),
        "last_owned_at": max(owned) if owned else None,
    }


def _stranded(step: GroupStep) -> dict[MessageQueue, QueueState]:
    since = step.now - step.policy.group_memory
    return {
        mq: queue
        for mq, queue in step.state.queues.items()
        if queue.ended is not None and queue.ended.why != "TOPIC_DELETED"
        if queue.ended.since > since and waiting(queue)
    }


def _why(found: dict[MessageQueue, QueueState]) -> str:
    whys = {queue.ended.why for queue in found.values() if queue.ended is not None}
    return next(why for why in ("BROKER_GONE", "QUEUE_REMOVED", "NOT_READ", "NOT_SUBSCRIBED") if why in whys)


def _names(queues: list[MessageQueue]) -> str:
    """Return the queues as ``topic@broker:id,id``."""
    names = [
        f"{topic}@{broker}:{','.join(str(mq.queue_id) for mq in of)}"
        for (topic, broker), of in groupby(queues, lambda mq: (mq.topic, mq.broker))
    ]
    more = len(names) - NAMED_MAX
    return "; ".join((*names[:NAMED_MAX], *((f"and {more} more",) if more > 0 else ())))


RULE = GroupRule(
    "MESSAGES_STRANDED",
    judge,
    evidence,
    units={"messages": "messages", "queues": "count", "queue_names": "text", "last_owned_at": "epoch_ms"},
    sub_causes=("QUEUE_REMOVED", "NOT_SUBSCRIBED", "BROKER_GONE", "NOT_READ"),
    needs=("OFFSETS_OF_BROKER",),
    absorbed_by=("MIXED_MEMBERS",),
    advice={
        "QUEUE_REMOVED": Advice(
            what="The topic no longer has some queues in which messages wait: no consumer will get these messages.",
            first_step=(
                "Restore the topic's number of read queues (mqadmin updateTopic -r) until they are consumed; reduce "
                "the write queues first."
            ),
            inspect=("PROGRESS",),
        ),
        "NOT_READ": Advice(
            what=(
                "No client reads some queues any more, though the group's clients read others of their topic: the "
                "topic seems to have lost them, and messages of them wait."
            ),
            first_step=(
                "Compare the topic's read queues (mqadmin topicRoute) with those of the evidence: restore their number "
                "(mqadmin updateTopic -r), or, if they are there, restart the members."
            ),
            inspect=("PROGRESS", "COMPARE"),
        ),
        "BROKER_GONE": Advice(
            what="Messages waited in queues of a broker that is no longer in the cluster: no consumer will get them.",
            first_step=(
                "Start the broker again on its store until they are consumed; to remove a broker, forbid writing on "
                "it first (brokerPermission=4), and wait until nothing is left."
            ),
            inspect=("BROKERS", "PROGRESS"),
        ),
        "NOT_SUBSCRIBED": Advice(
            what="No member subscribes to a topic any more that the group consumed, and messages of it wait.",
            first_step=(
                "Compare the topic's name with what the members subscribe since the last release; if it was left on "
                "purpose, nothing is to be done."
            ),
            inspect=("MEMBERS", "PROGRESS"),
        ),
    },
)
