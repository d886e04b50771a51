"""Tell whether a client that pulls by itself (CONSUME_ACTIVELY) goes on reading a queue between two commits.

Such a client commits when its application does: at a checkpoint every few minutes (Flink, SeaTunnel), or never. So a
commit that does not advance shows nothing. What does:

- DefaultLitePullConsumer reports its queues. It stamps a queue when poll() hands over messages of it; what it has
  cached is not yet handed over. It stamps a pull before it looks at its limits, so a fresh pull shows nothing.
- DefaultMQPullConsumer reports no queue. The broker counts what it pulls (OffsetWrapper.pullOffset, since 5.x).
- A broker's hook sees the pulls. A lite-pull client whose application hangs pulls until its cache is full.
"""

from rebalance_model.observe.facts.queue_facts import OwnersQueue, QueueFacts
from rebalance_model.observe.group.owners_queue import owners_queue
from rebalance_model.observe.hooks import pull_errors
from rebalance_model.observe.state import PULL, QueueState
from rebalance_model.observe.step import GroupStep


def is_read_actively(step: GroupStep, q: QueueFacts) -> bool:
    """Return whether the queue's client pulls by itself; all members must, if it is unknown which client reads it."""
    state, queue = step.state, q.queue
    holder = queue.owner or (queue.hook_view.holder if queue.hook_view is not None else None)
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
    pull = _hook_pull(step, q)
    if pull is not None:
        return pull <= limit
    if queue.pull_offset >= 0 and queue.broker_offset is not None:
        return queue.pull_offset >= queue.broker_offset or step.now - queue.pull_advanced_at <= limit
    return None


def _handed_over(queue: QueueState, process_queue: OwnersQueue | None, now: int, limit: int) -> bool | None:
    """Return whether the client hands over what it has, by its own answer; None: it has nothing, or is silent.

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


def _hook_pull(step: GroupStep, q: QueueFacts) -> int | None:
    """Return the time since the last pull of the queue by the broker's clock, milliseconds; None: no hook reports."""
    hook_view, hook = q.seen, q.hook
    if hook_view is None or hook is None or not hook_view.pull_time:
        return None
    return max(0, step.now - max(hook_view.pull_time, hook.covered_since))
