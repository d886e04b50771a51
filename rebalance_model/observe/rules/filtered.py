"""Tell a queue that is read to its end from one that waits: its client commits nothing of what its filter leaves out.

A broker leaves out the messages that a group's expression does not match, and tells the client the next offset.
Java's client commits that once it has nothing of the queue (correctTagsOffset); Go's 2.0 and 2.1 do not, nor does any
client for messages that it leaves out itself, those whose tag has the same hash. The commit then stands and lag grows,
though no message waits: the client pulls at the newest offset and gets none.

Where the client does not say how many messages it has, as Go's does not, and by a hook alone, a listener that hangs
looks alike at first: the client pulls on until it has pullThresholdForQueue messages. Beyond that it can only have left
them out. Before, it counts as left out only if nothing was committed since the client has the queue.

Determine whether a client that pulls by itself (CONSUME_ACTIVELY) continues to read a queue between two commits.

Such a client commits when its application does: at a checkpoint every few minutes (Flink, SeaTunnel), or never. So a
commit that does not advance shows nothing. What does:

- DefaultLitePullConsumer reports its queues. It stamps a queue when poll() hands over messages of it; what it has
  cached is not yet handed over. It stamps a pull before it looks at its limits, so a fresh pull shows nothing.
- DefaultMQPullConsumer reports no queue. The broker counts what it pulls (OffsetWrapper.pullOffset, since 5.x).
- A broker's hook sees the pulls. A lite-pull client whose application hangs pulls until its cache is full.
"""

from rebalance_model.observe.facts.group_facts import interest_at_broker
from rebalance_model.observe.facts.queue_facts import OwnersQueue, QueueFacts
from rebalance_model.observe.group.owners_queue import owners_queue
from rebalance_model.observe.hooks import pull_errors
from rebalance_model.observe.rules.rule import Advice, Holds
from rebalance_model.observe.state import PULL, ProcessQueueView, QueueState
from rebalance_model.observe.step import GroupStep


def is_read_actively(step: GroupStep, q: QueueFacts) -> bool:
    """Return whether the queue's client pulls by itself; all members must, if it is unknown which client reads it."""
    state, queue = step.state, q.queue
    holder = queue.owner or (q.seen.holder if q.seen is not None else None)
    readers = state.members if holder is None else (holder,)
    types = {client.consume_type for r in readers if (client := state.clients.get(r)) is not None} - {""}
    return types == {PULL} if types else step.facts.division == "ACTIVE"


def reads_on(step: GroupStep, q: QueueFacts, limit: int) -> bool | None:
    """Return whether the queue has been read within ``limit`` (ms), or to its end; None if telemetry does not show."""
    queue = q.queue
    handed_over = _handed_over(queue, owners_queue(step, q), step.now, limit)
    if handed_over is not None:
        return handed_over
    if pull_errors.is_refused(step, q):
        return False
    if q.calls is not None and q.calls.pull_time:
        return step.now - max(q.calls.pull_time, q.watched_since) <= limit
    if queue.pull_offset >= 0 and queue.broker_offset is not None:
        return queue.pull_offset >= queue.broker_offset or step.now - queue.pull_advanced_at <= limit
    return None


def _handed_over(queue: QueueState, process_queue: OwnersQueue | None, now: int, limit: int) -> bool | None:
    """Return whether the client hands its messages over, by its own answer; None: it has none, or is silent.

    One that has handed over its last message after the newest one was sent has had all of them.
    """
    consume_ms = process_queue.consume_ms if process_queue is not None else None
    if process_queue is None or process_queue.answer is None or process_queue.client.silent or consume_ms is None:
        return None
    if consume_ms <= limit:
        return True
    if process_queue.answer.cached_count:
        return False
    has_all = process_queue.answer.cached_count == 0 and now - consume_ms > queue.filled_after > 0
    return True if has_all else None


FILTERED = "FILTERED"
ADVICE: Advice = Advice(
    short="its filter leaves messages out, and they are not committed",
    what=(
        "The client reads the queue to its end and has no message of it: its expression matches none of those that "
        "seem to wait, and it does not commit what it leaves out. Nothing waits."
    ),
    first_step=(
        "Nothing is to be done unless messages should match: compare the expression with the messages' tags. A newer "
        "client may commit what the broker leaves out."
    ),
    inspect=("MEMBERS", "PROGRESS"),
)
_EVERYTHING = frozenset("*")


def verdict(q: QueueFacts) -> Holds:
    """Return what a rule says of such a queue: nobody is to blame."""
    return Holds("info", FILTERED, q.queue.owner)


def is_filtered(step: GroupStep, q: QueueFacts) -> bool:
    """Return whether the queue is read to its end, and what seems to wait of it was left out."""
    if q.mq.is_retry or not _has_filter(step, q) or not _reads_to_end(step, q):
        return False
    answer = owners_answer(step, q)
    if answer is not None and answer.cached_count is not None:
        has_none = answer.cached_count == 0 and not answer.transaction_count
        return has_none and _has_long_consumed_nothing(step, q)
    return _ahead(q) > step.facts.pull_threshold(q.queue.owner) or _has_committed_nothing(step, q)


def _has_filter(step: GroupStep, q: QueueFacts) -> bool:
    """Return whether the expression of the queue's owner filters; that of the group, if no member answers."""
    client_id, info = q.queue.owner, step.facts.info
    if client_id is not None:
        interest = step.facts.interests.get(client_id, {}).get(q.mq.topic)
    elif step.facts.is_mute and info is not None and q.mq.topic in info.subscription_table:
        interest = interest_at_broker(info.subscription_table[q.mq.topic])
    else:
        interest = None
    return interest is not None and interest[1] != _EVERYTHING


def owners_answer(step: GroupStep, q: QueueFacts) -> ProcessQueueView | None:
    """Return the queue in its owner's last answer, unless the owner does not answer any more."""
    held = owners_queue(step, q)
    return held.answer if held is not None and not held.client.silent else None


def _reads_to_end(step: GroupStep, q: QueueFacts) -> bool:
    """Return whether the client pulls on, as far as the newest message that is known, or at least further each time."""
    queue, seen, recent = q.queue, q.owners_calls, 2 * step.policy.poll_interval
    if seen is not None:
        return seen.start_offset >= 0 and step.now - seen.pull_time <= step.policy.pull_suspended_max
    if queue.pull_offset < 0 or queue.broker_offset is None:
        return False
    return queue.pull_offset >= queue.broker_offset or step.now - queue.pull_advanced_at <= recent


def _has_long_consumed_nothing(step: GroupStep, q: QueueFacts) -> bool:
    held = owners_queue(step, q)
    ms = held.consume_ms if held is not None else None
    return ms is None or ms > step.policy.consume_frozen_after


def _ahead(q: QueueFacts) -> int:
    """Return how many messages beyond the commit are pulled."""
    called = q.seen.pull_offset - q.seen.commit_offset if q.seen is not None and q.seen.commit_offset >= 0 else 0
    position = q.queue.position
    return max(called, q.queue.pull_offset - position if position is not None else 0)


def _has_committed_nothing(step: GroupStep, q: QueueFacts) -> bool:
    """Return whether the commit is still that at which the client began, as far as is known."""
    seen = q.owners_calls
    if seen is not None:
        return 0 <= seen.commit_offset <= seen.start_offset
    answer = owners_answer(step, q)
    if answer is None:
        return q.queue.owner is None and not q.queue.advanced_at
    return q.queue.advanced_at <= answer.claimed_since
