"""Find consumers whose listener threads are all taken, so that messages of all their topics wait for a thread.

A push consumer runs the listeners of all its topics in one pool (ConsumeMessageConcurrentlyService.consumeExecutor). A
listener that hangs on one topic takes its threads one by one; the messages of the other topics never start, though
nothing is wrong with them. All queues of several topics then hold messages and do not advance; where a single
thread is hung, other queues advance.

The topic that stopped first has the threads, if that is certain. Those that stopped together can't be told apart.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.rules.rule import Evidence, Unit
from rebalance_model.observe.state import ClientView, IncidentKey
from rebalance_model.observe.step import GroupStep, ThreadPool

THREADS = 20
"""DefaultMQPushConsumer.consumeThreadMax, where a client does not report its own."""
UNITS: Mapping[str, Unit] = {
    "pool_topics": "text",
    "pool_holder": "text",
    "pool_threads": "count",
    "threads_in_listener": "count",
}
TOPICS_SHOWN = 8
"""The number of topics that share a pool and are named."""
STOPPED_TOGETHER = 1_000
"""Topics whose stamps differ by less stopped together; milliseconds."""


class WaitingQueue(NamedTuple):
    """A queue whose messages wait at their client."""

    mq: MessageQueue
    messages: int
    stopped: int
    """When the client last finished a message of it, or began to wait; by one clock for all queues of the client."""
    stalled_ms: int


def exhausted(step: GroupStep, client_id: str | None) -> ThreadPool | None:
    """Return the pool of a queue's owner if all its threads are taken; None if they are not, or that is not shown."""
    if client_id is None or step.state.orderly:
        return None
    if client_id not in step.pools:
        step.pools[client_id] = _exhausted(step, client_id)
    return step.pools[client_id]


def _exhausted(step: GroupStep, client_id: str) -> ThreadPool | None:
    client = step.state.clients[client_id]
    answers = client.readable and not client.silent and bool(client.queues)
    waiting = _by_answer(step, client) if answers else _by_calls(step, client_id)
    topics = {one.mq.topic for one in waiting or ()}
    needed = (client.threads_max or THREADS) * (client.consume_batch or 1)  # each may have a whole batch
    if waiting is None or len(topics) < 2 or sum(one.messages for one in waiting) < needed:
        return None
    margin = STOPPED_TOGETHER if answers else 2 * step.policy.persist_consumer_offset_interval
    return ThreadPool(tuple(sorted(topics)), _holder(waiting, needed, margin))


def _by_answer(step: GroupStep, client: ClientView) -> list[WaitingQueue] | None:
    """Return the queues with messages at the client, by its answer; None if any queue advances."""
    waiting = []
    for mq, process_queue in client.queues.items():
        stamp, certain = process_queue.last_consume_timestamp, client.at_answer(process_queue).last_consume_timestamp
        if mq.is_retry or process_queue.dropped:
            continue
        if certain is None or stamp is None or client.answered - certain <= step.policy.consume_frozen_after:
            return None
        if process_queue.cached_count:
            known = step.state.queues.get(mq)
            stalled = known.stalled_ms if known is not None else 0
            waiting.append(WaitingQueue(mq, process_queue.cached_count, stamp, stalled))
    return waiting


def _by_calls(step: GroupStep, client_id: str) -> list[WaitingQueue] | None:
    """Return the queues whose pulled messages wait, by calls; None if a commit of any queue has just advanced."""
    waiting, now = [], step.now
    for mq, seen in step.facts.seen.items():
        if seen.holder != client_id or mq.is_retry:
            continue
        if now - max(seen.advanced_at, step.facts.watched_since(mq.broker)) <= step.policy.stuck_after:
            return None
        if seen.waiting_since:
            messages = max(0, seen.pull_offset - seen.commit_offset)
            waiting.append(WaitingQueue(mq, messages, seen.waiting_since, now - seen.waiting_since))
    return waiting


def _holder(waiting: list[WaitingQueue], needed: int, margin: int) -> str | None:
    """Return the topic that stopped first, and has waited longest, with enough messages to take every thread."""
    of_topic: defaultdict[str, list[WaitingQueue]] = defaultdict(list)
    for one in waiting:
        of_topic[one.mq.topic].append(one)
    (first, topic), (second, _), *_ = sorted((max(w.stopped for w in of), t) for t, of in of_topic.items())
    stalled = {t: max(w.stalled_ms for w in of) for t, of in of_topic.items()}
    is_first = second - first > margin and stalled[topic] >= max(stalled.values())
    return topic if is_first and sum(w.messages for w in of_topic[topic]) >= needed else None


def root(step: GroupStep, code: str, mq: MessageQueue, client_id: str | None) -> IncidentKey | None:
    """Return the open incident of the client's queues that explains the others; None: there is none yet.

    A queue's own incident is left out, and so is one that has a parent.
    """
    for key, one in step.state.incidents.items():
        if one.code == code and one.queue not in (None, mq) and one.client_id == client_id and one.parent is None:
            return key if one.cleared_at is None else None
    return None


def evidence(step: GroupStep, client_id: str | None) -> Evidence:
    """Return the topics that share the pool, the one that has the threads, and their number."""
    pool = exhausted(step, client_id)
    client = step.state.clients.get(client_id or "")
    if pool is None or client is None:
        return {}
    return {
        "pool_topics": ", ".join(pool.topics[:TOPICS_SHOWN]),
        "pool_holder": pool.holder,
        "pool_threads": client.threads_max,
        "threads_in_listener": client.threads_in_listener,
    }
