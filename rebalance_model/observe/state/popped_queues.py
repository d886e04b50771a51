"""The popped queues of one group: how each topic is popped, and what is in flight of each queue (`popped`).

A queue is known from its first ack, refusal or renewal on, or from a broker's answer: a POP may ask for all queues of
a broker, and does not say which there are. What hooks and polls show of it is one state, and rules and quantities fold
it in the same way. A retry topic is popped with its topic, and its queues are popped queues of their own.
"""

import msgspec

from rebalance_model.entities import RETRY_TOPIC_PREFIX, MessageQueue
from rebalance_model.observe.events.hook_events import AckMessage, PopMessage, PoppedEvent
from rebalance_model.observe.state import popped
from rebalance_model.observe.state.popped import PoppedQueue

QUEUES_MAX = 4_096
"""Popped queues that are kept of a group."""
TOPICS_MAX = 1_024
"""Topics at a broker whose POPs are kept of a group."""
FORGOTTEN_AFTER = 3_600_000
"""A queue or a topic without a call for this long is forgotten, milliseconds: all that was in flight has been given
back, but what a proxy has renewed for longer."""
RETRY_SEPARATORS = "_+"
"""Separators of group and topic in the name of a retry topic: version 1 and 2 (KeyBuilder.buildPopRetryTopic)."""


class TopicPops(msgspec.Struct, array_like=True):
    """The way in which a topic is popped at one broker, by the last POP."""

    at: int
    """When it came; epoch milliseconds."""
    invisible_ms: int
    order: bool
    filtered: bool


class PoppedQueues(msgspec.Struct, array_like=True):
    """The popped queues of one group."""

    queues: dict[MessageQueue, PoppedQueue] = {}
    topics: dict[tuple[str, str], TopicPops] = {}
    """By broker and topic."""
    called: dict[MessageQueue, int] = {}
    """When a call was last about the queue; epoch milliseconds."""


def popped_topic(group: str, topic: str) -> str:
    """Return the topic in whose name a topic is popped: for a retry topic that of its messages, else itself."""
    prefix = RETRY_TOPIC_PREFIX + group
    rest = topic.removeprefix(prefix)
    return rest[1:] if topic.startswith(prefix) and rest[:1] in tuple(RETRY_SEPARATORS) else topic


def fold(pops: PoppedQueues, event: PoppedEvent, *, by_proxy: bool) -> tuple[MessageQueue | None, str]:
    """Process a call; ``by_proxy`` says whether the channel is not a client's own.

    Returns:
        The queue that it is about, None for a POP or if there are too many; and of a change whether the message was
        RENEWED or REFUSED, else an empty string.
    """
    if isinstance(event, PopMessage):
        _on_pop(pops, event)
        return None, ""
    mq = MessageQueue(event.topic, event.broker, event.queue_id)
    queue = _queue_of(pops, mq, event.group)
    if queue is None:
        return None, ""
    pops.called[mq] = event.time
    if isinstance(event, AckMessage):
        popped.on_ack(queue, event)
        return mq, ""
    return mq, popped.on_change(queue, event, by_proxy=by_proxy)


def on_offsets(
    pops: PoppedQueues, group: str, mq: MessageQueue, now: int, *, commit_offset: int, pull_offset: int
) -> PoppedQueue | None:
    """Process a broker's offsets of a queue; return what is known of it, None if nobody pops its topic there."""
    queue = pops.queues.get(mq)
    if queue is None:
        topic = pops.topics.get((mq.broker, popped_topic(group, mq.topic)))
        queue = _queue_of(pops, mq, group) if topic is not None else None
        if queue is None or topic is None:
            return None
        pops.called[mq] = topic.at
        popped.cover(queue, now)
    popped.on_offsets(queue, now, commit_offset=commit_offset, pull_offset=pull_offset)
    return queue


def forget(pops: PoppedQueues, broker: str, now: int) -> None:
    """Begin again for the queues of a broker: calls are missing, or it has restarted."""
    for mq, queue in pops.queues.items():
        if mq.broker == broker:
            popped.forget(queue, now)


def forget_all(pops: PoppedQueues, now: int) -> None:
    """Begin again for all queues: no source reported anything for a time."""
    for queue in pops.queues.values():
        popped.forget(queue, now)


def forget_unused(pops: PoppedQueues, now: int) -> None:
    """Forget the queues and topics that nobody pops any more."""
    before = now - FORGOTTEN_AFTER
    for mq in [mq for mq, at in pops.called.items() if at < before and not pops.queues[mq].held_messages]:
        del pops.queues[mq], pops.called[mq]
    for place in [place for place, topic in pops.topics.items() if topic.at < before]:
        del pops.topics[place]


def _on_pop(pops: PoppedQueues, event: PopMessage) -> None:
    if event.code not in popped.DONE:
        return
    place = (event.broker, event.topic)
    before, now = pops.topics.get(place), TopicPops(event.time, event.invisible_ms, event.order, event.filtered)
    if before is None and len(pops.topics) >= TOPICS_MAX:
        return
    pops.topics[place] = now
    if before is not None and (before.invisible_ms, before.order, before.filtered) == (
        now.invisible_ms,
        now.order,
        now.filtered,
    ):
        return  # the usual case
    for mq, queue in pops.queues.items():
        if mq.broker == event.broker and popped_topic(event.group, mq.topic) == event.topic:
            popped.on_pop(queue, event)


def _queue_of(pops: PoppedQueues, mq: MessageQueue, group: str) -> PoppedQueue | None:
    queue = pops.queues.get(mq)
    if queue is None and len(pops.queues) < QUEUES_MAX:
        queue = pops.queues[mq] = PoppedQueue()
        topic = pops.topics.get((mq.broker, popped_topic(group, mq.topic)))
        if topic is not None:
            queue.invisible_ms, queue.order, queue.filtered = topic.invisible_ms, topic.order, topic.filtered
    return queue
