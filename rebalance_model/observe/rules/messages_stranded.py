"""MESSAGES_STRANDED: messages that the group will not consume wait, and no member is at fault.

QUEUE_REMOVED: the topic has fewer read queues than before. Clients drop the others
(RebalanceImpl.updateProcessQueueTableInRebalance), and what was not consumed of them stays there. NOT_SUBSCRIBED: all
members have stopped to subscribe a topic, on purpose or by a wrong name; what is sent to it later does not count.
BROKER_GONE: a broker was taken out of the cluster before everything was consumed. NOT_READ: by hooks alone, which see
no route, a topic seems to have lost queues (`released_queues`) that no client takes in its next rebalance; what they
had pulled and not committed waits. SKIPPED: the group began new queues at a later offset than their first message
(`skipped`). EXPIRED, JUMPED, WHILE_EMPTY: the commit of a queue jumped forward over messages that nobody had read
(`jumps`). One incident tells the number for all such queues, as it was last reported: at least as many wait. Clear when
the queues are consumed again, when nothing waits, or after `group_memory`.
"""

from itertools import groupby
from typing import NamedTuple

from rebalance_model.entities import MessageQueue, queue_order
from rebalance_model.observe.group.ended_queues import waiting
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, GroupRule, Holds, Verdict
from rebalance_model.observe.state import QueueState
from rebalance_model.observe.step import GroupStep

WHYS = ("EXPIRED", "JUMPED", "WHILE_EMPTY", "BROKER_GONE", "QUEUE_REMOVED", "NOT_READ", "NOT_SUBSCRIBED", "SKIPPED")
"""The sub-causes; of several the first one is named."""
GATHERED_AFTER = 15_000
"""Queues that are skipped in one rebalance are reported together, after this time: clients take, and answer, one after
the other; milliseconds."""
_GATHERED = tuple((why, GATHERED_AFTER) for why in ("SKIPPED", "EXPIRED", "JUMPED", "WHILE_EMPTY"))
NAMED_MAX = 10
"""At most this many topics and brokers are named."""


class Stranded(NamedTuple):
    """The messages that wait in one queue."""

    messages: int
    why: str
    since: int
    """Epoch milliseconds."""


def judge(step: GroupStep, _: str) -> Verdict:
    """Check whether messages wait in queues that have ended recently, or were skipped."""
    if step.facts.broadcasts:
        return CLEAR
    stranded = _stranded(step)
    for why, settled_after in (*_GATHERED, ("NOT_READ", step.policy.rebalance_wait_interval)):
        since = min((one.since for one in stranded.values() if one.why == why), default=0)
        if step.now - since < settled_after:
            step.schedule_check(since + settled_after)
            stranded = {mq: one for mq, one in stranded.items() if one.why != why}
    if not stranded:
        return CLEAR
    step.schedule_check(min(one.since for one in stranded.values()) + step.policy.group_memory + 1)
    whys = {one.why for one in stranded.values()}
    return Holds("warning", next(why for why in WHYS if why in whys))


def evidence(step: GroupStep, _: str) -> Evidence:
    """Return how many messages wait at least, in which queues, until when they had an owner, and where it began."""
    stranded, queues = _stranded(step), step.state.queues
    owned = [at for mq in stranded if (at := queues[mq].released_at)]
    jumped = [one for mq in sorted(stranded, key=queue_order) if (one := queues[mq].skipped) is not None]
    return {
        "messages": sum(one.messages for one in stranded.values()),
        "queues": len(stranded),
        "queue_names": _names(sorted(stranded, key=queue_order)),
        "last_owned_at": max(owned) if owned else None,
        "begun_at_offset": jumped[0].start if jumped else None,
        "skipped_at": min(one.at for one in jumped) if jumped else None,
        "moved_by": next((one.by for one in jumped if one.by), None),
    }


def _stranded(step: GroupStep) -> dict[MessageQueue, Stranded]:
    since = step.now - step.policy.group_memory
    queues = step.state.queues
    marked = [mq for mq, queue in queues.items() if queue.ended is not None or queue.skipped is not None]
    every = ((mq, _of_queue(step, queues[mq])) for mq in marked)
    return {mq: one for mq, one in every if one is not None and one.since > since}


def _of_queue(step: GroupStep, queue: QueueState) -> Stranded | None:
    """Return the messages that wait in a queue that has ended, or that were skipped; None: neither, or uncertain."""
    ended, skipped = queue.ended, queue.skipped
    if ended is not None:
        messages = waiting(queue) if ended.why != "TOPIC_DELETED" else None
        return Stranded(messages, ended.why, ended.since) if messages else None
    if skipped is None or (skipped.why == "WHILE_EMPTY" and not step.facts.is_divided):
        return None
    return Stranded(skipped.before + skipped.start - skipped.first, skipped.why, skipped.at)


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
    follows=("ENDED", "SKIPPED", "OFFSETS", "MEMBERS"),
    title="Messages are left that {group} will not consume",
    units={
        "messages": "messages",
        "queues": "count",
        "queue_names": "text",
        "last_owned_at": "epoch_ms",
        "begun_at_offset": "offset",
        "skipped_at": "epoch_ms",
        "moved_by": "text",
    },
    sub_causes=WHYS,
    needs=("OFFSETS_OF_BROKER",),
    absorbed_by=("MIXED_MEMBERS",),
    advice={
        "QUEUE_REMOVED": Advice(
            short="their queues were removed",
            what="The topic no longer has some queues in which messages wait: no consumer will get these messages.",
            first_step=(
                "Restore the topic's number of read queues (mqadmin updateTopic -r) until they are consumed; reduce "
                "the write queues first."
            ),
            inspect=("PROGRESS",),
        ),
        "NOT_READ": Advice(
            short="nobody reads their queues any more",
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
            short="their broker is gone",
            what="Messages waited in queues of a broker that is no longer in the cluster: no consumer will get them.",
            first_step=(
                "Start the broker again on its store until they are consumed; to remove a broker, forbid writing on "
                "it first (brokerPermission=4), and wait until nothing is left."
            ),
            inspect=("BROKERS", "PROGRESS"),
        ),
        "EXPIRED": Advice(
            short="the commit jumped over messages that the broker no longer had",
            what=(
                "The broker answered that it does not have the next messages (PULL_OFFSET_MOVED), and the group "
                "continued after them: the store deleted them unread, or an operator reset the offset. What a client "
                "had in its memory, up to pullThresholdForQueue of each queue, it drops, too (ProcessQueue.setDropped)."
            ),
            first_step=(
                "Compare the group's delay with how long the broker keeps messages (fileReservedTime, and deletion at "
                "diskMaxUsedSpaceRatio): they are lost if they were deleted; after a reset, reset to an earlier time."
            ),
            inspect=("PROGRESS",),
        ),
        "JUMPED": Advice(
            short="the commit jumped over messages that nobody read",
            what=(
                "The group's clients continue after messages that none of them pulled: the commit was moved "
                "(resetOffsetByTime, skipAccumulatedMessage), or the store deleted messages before they were read."
            ),
            first_step=(
                "Ask who reset the group's offset; compare its delay with how long the broker keeps messages "
                "(fileReservedTime). What is still stored can be read by a reset to an earlier time."
            ),
            inspect=("PROGRESS",),
        ),
        "WHILE_EMPTY": Advice(
            short="the commit was moved forward while no client was listed",
            what=(
                "The group's commit went forward while no client was listed: somebody moved it (resetOffsetByTime, "
                "skipAccumulatedMessage), unless a client came, consumed and left between two polls."
            ),
            first_step=(
                "Ask who reset the group's offset. What is still stored can be read by a reset to an earlier time "
                "(mqadmin resetOffsetByTime)."
            ),
            inspect=("PROGRESS",),
        ),
        "SKIPPED": Advice(
            short="new queues were begun at a later offset",
            what=(
                "The group began new queues at a later offset than their first message (consumeFromWhere): the "
                "messages before were skipped, and no consumer will get them."
            ),
            first_step=(
                "If they are needed, reset the group's offset of the topic to a time before them (mqadmin "
                "resetOffsetByTime); messages that were consumed since then are consumed again."
            ),
            inspect=("PROGRESS",),
        ),
        "NOT_SUBSCRIBED": Advice(
            short="their topic is not subscribed any more",
            what="No member subscribes to a topic any more that the group consumed, and messages of it wait.",
            first_step=(
                "Compare the topic's name with what the members subscribe since the last release; if it was left on "
                "purpose, nothing is to be done."
            ),
            inspect=("MEMBERS", "PROGRESS"),
        ),
    },
)
