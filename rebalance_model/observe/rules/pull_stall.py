"""Say why a queue waits whose owner has no message of it: sub-causes that the rules about a stall share.

DefaultMQPushConsumerImpl.pullMessage stamps the pull first; only then does it return for a consumer that is suspended
(isPause) or that has too many messages, and only then does the broker refuse it. So a fresh stamp beside no message
shows one of them. The broker's hook tells them apart: it sees the refused pulls with their code, and none of a queue
that the client holds back; of a suspended consumer it sees no pull of any queue.
"""

from collections.abc import Mapping
from typing import Literal

from rebalance_model.observe.facts.queue_facts import OwnersQueue, QueueFacts
from rebalance_model.observe.hooks import pull_errors
from rebalance_model.observe.rules.rule import Advice
from rebalance_model.observe.step import GroupStep

PullCause = Literal["PULL_REFUSED", "TOPIC_NOT_READABLE", "SUSPENDED", "HOLDS_BACK", "NOTHING_RECEIVED"]

ADVICE: Mapping[str, Advice] = {
    "PULL_REFUSED": Advice(
        short="the broker refuses every pull",
        what="The broker answers every pull of the queue with an error: its messages reach no client.",
        first_step="Look at PULL_REFUSED of the same queue: it has the response code, and what to change.",
        inspect=("PROGRESS",),
    ),
    "TOPIC_NOT_READABLE": Advice(
        short="the topic has no readable queue any more",
        what="The topic has no readable queue any more: the clients keep theirs, and receive no message.",
        first_step="Give the topic its read permission back: mqadmin updateTopicPerm -p 6.",
        inspect=("BROKERS", "PROGRESS"),
    ),
    "SUSPENDED": Advice(
        short="the consumer is suspended",
        what=(
            "The owner runs and has no message of the queue, but the broker sees no pull of it, nor of any other queue "
            "of the owner: the consumer is suspended."
        ),
        first_step="Check whether the application called suspend(); call resume(), or restart the owner.",
        inspect=("THREADS",),
    ),
    "HOLDS_BACK": Advice(
        short="its client holds back",
        what=(
            "The owner runs and pulls its other queues, but sends no pull of this one, though it stamps them: it holds "
            "back (flow control), as if it had too many messages of the queue."
        ),
        first_step=(
            "Read the owner's log for flow control of the queue (cached message count or size exceeds the threshold); "
            "restart the client if it has consumed what it cached."
        ),
        inspect=("THREADS",),
    ),
    "NOTHING_RECEIVED": Advice(
        short="the owner receives no messages",
        what=(
            "The owner tries to pull and receives no message, though messages wait: its pulls are refused or do not "
            "reach the broker, or it holds them back (flow control, a consumer that is suspended)."
        ),
        first_step=(
            "Read the owner's log for its pulls: a response code (consumeEnable, permission of the topic, ACL), an "
            "unknown broker, flow control; check whether the application called suspend()."
        ),
        inspect=("THREADS", "PROGRESS"),
    ),
}
"""Advice by sub-cause."""


def cause_of(step: GroupStep, q: QueueFacts, process_queue: OwnersQueue | None) -> PullCause | None:
    """Return why the queue's owner receives no message; None if it has some, or pulls as usual, or that is unknown."""
    answer = process_queue.answer if process_queue is not None else None
    if answer is not None and ((answer.cached_count or 0) > 0 or (answer.transaction_count or 0) > 0):
        return None
    if pull_errors.is_refused(step, q):
        return "PULL_REFUSED"
    if process_queue is None or answer is None or not _pulls(step, process_queue) or _receives(step, q):
        return None
    route = step.state.routes.get(q.mq.topic)
    if route is not None and not route.queues:
        return "TOPIC_NOT_READABLE"
    return _of_calls(step, q, is_known=answer.cached_count is not None)


def _of_calls(step: GroupStep, q: QueueFacts, *, is_known: bool) -> PullCause | None:
    """Return the cause by the pulls that are seen at the broker; it is ``known`` that the client has no message."""
    pulled = q.owner_pulled_at
    if pulled is None:
        return "NOTHING_RECEIVED" if is_known or q.queue.pull_offset >= 0 else None
    if step.now - pulled <= step.policy.pull_suspended_max + step.policy.poll_interval:
        return None
    others = _others_pulled(step, q)
    return "NOTHING_RECEIVED" if not others else "HOLDS_BACK" if any(others) else "SUSPENDED"


def _receives(step: GroupStep, q: QueueFacts) -> bool:
    """Return whether the broker's answers show that the queue is pulled further and further, or to its end."""
    queue = q.queue
    if queue.pull_offset < 0 or queue.broker_offset is None:
        return False
    is_at_end = queue.pull_offset >= queue.broker_offset and queue.filled_after > 0
    return is_at_end or 0 < step.now - queue.pull_advanced_at <= 2 * step.policy.poll_interval


def _others_pulled(step: GroupStep, q: QueueFacts) -> list[bool]:
    """Return of each other queue that the owner has by its calls whether it pulls it; suspend() stops them all."""
    since = step.now - step.policy.pull_suspended_max - step.policy.poll_interval
    others = ((mq, seen) for mq, seen in step.facts.seen.items() if mq != q.mq and seen.holder == q.queue.owner)
    return [seen.pull_time > since for mq, seen in others if step.facts.watched_since(mq.broker) <= step.now]


def _pulls(step: GroupStep, process_queue: OwnersQueue) -> bool:
    """Return whether the owner's answers show that it pulls, and that it has long consumed nothing."""
    pull_ms, consume_ms = process_queue.pull_ms, process_queue.consume_ms
    if process_queue.client.silent or pull_ms is None or pull_ms > step.policy.pull_suspended_max:
        return False
    return consume_ms is None or consume_ms > step.policy.consume_frozen_after
