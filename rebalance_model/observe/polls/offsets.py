"""Fold a broker's offsets (GET_CONSUME_STATS), and count for how long a queue with lag has not advanced.

Only covered time counts: the time between two answers not further apart than three poll intervals, with nothing lost in
between. A broker that does not answer, or a collector that was away, adds nothing: unobserved time is not judged.

Count by polls the messages that come back to consumers that pop: each is stored in the group's retry topic again.

A broker stores a message there that was refused, or was not acknowledged in time, once its invisible time is over. From
offsets alone the two can't be distinguished. The topic that classic consumers send messages back to, ``%RETRY%group``,
is another one.
"""

from rebalance_model.entities import RETRY_TOPIC_PREFIX, MessageQueue
from rebalance_model.observe.events import UNREADABLE, ConsumeStats, OffsetInfo
from rebalance_model.observe.group import deleted_group, ended_queues, jumps, skipped
from rebalance_model.observe.polls import clock_skew, lag_trend
from rebalance_model.observe.state import (
    BrokerView,
    FallenBack,
    HookQueueView,
    NewestFall,
    PolledReturns,
    Pops,
    QueueState,
    popped_queues,
)
from rebalance_model.observe.state.popped_queues import popped_topic
from rebalance_model.observe.step import GroupStep

AGAIN_WITHIN = 130_000
"""Messages come back again and again if the next one comes within this time: a message that is refused for the fourth
time comes after two minutes; milliseconds."""


def note(step: GroupStep, queue: QueueState, info: OffsetInfo, *, covered: bool) -> None:
    """Process a row of an answer, which is not applied to the queue yet; ``covered`` if nothing is missing between."""
    state = step.state
    returns = state.returns
    topic = popped_topic(state.group, info.mq.topic) if info.mq.is_retry else info.mq.topic
    is_return = topic != info.mq.topic
    if returns is None:
        if is_return:
            state.returns = PolledReturns()
        return
    if not covered or queue.broker_offset is None:
        return
    if not is_return:
        if not info.mq.is_retry and queue.commit_offset is not None:
            returns.handed_out.add(step.now, max(0, info.consumer_offset - queue.commit_offset))
    elif (count := info.broker_offset - queue.broker_offset) > 0:
        returns.returned.add(step.now, count)
        if step.now - returns.returned_at > AGAIN_WITHIN:
            returns.since = step.now
        returns.returned_at, returns.topic = step.now, topic
        step.changed("RETURNED")


_FROM_START = ("CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET")
COVERED_INTERVALS = 3
"""Two answers further apart than this many poll intervals cover no time."""


def fold_stats(step: GroupStep, event: ConsumeStats) -> None:
    """Process the broker's offsets, and judge the queues by them."""
    judged, stored = [], 0
    view = step.state.views.get(event.broker)
    asked_before = view.stats_asked if view is not None else 0
    deleted_group.note_answer(view, event)
    queues = step.state.queues
    step.touched |= dict.fromkeys([info.mq for info in event.queues or ()])
    for info in event.queues or ():
        queue = queues.get(info.mq) or step.queue(info.mq)
        if event.asked < queue.stats_at:
            continue
        if queue.ended is not None:
            ended_queues.return_queue(step, info.mq, queue)
        if 0 < asked_before <= queue.stats_at and info.consumer_offset > (queue.broker_offset or 0):
            stored = max(stored, info.last_time)  # of a message newer than the answer before
        if queue.commit_offset is None:
            step.changed("REPORT")
        _advance(step, queue, info, event)
        if step.state.pops is not None:
            _note_popped(step, step.state.pops, info)
        judged.append(info.mq)
    if view is not None:
        _note_of_broker(step, view, event, stored)
    step.queues_to_judge |= {mq: "OFFSETS" for mq in judged if mq not in step.queues_to_judge}
    if not step.state.members:
        step.changed("OFFSETS")


def _note_of_broker(step: GroupStep, view: BrokerView, event: ConsumeStats, stored: int) -> None:
    """Note what of the answer can't be read, and bound the broker's clock by when it stored a new message; 0: none."""
    asked_before, unreadable = view.stats_asked, _unreadable(event)
    if view.unreadable_offsets != unreadable:
        view.unreadable_offsets = unreadable
        step.changed("REPORT")
    if event.queues is not None:
        view.stats_asked = max(asked_before, event.asked)
        skew = clock_skew.narrowed(view.skew, stored - event.time, stored - asked_before) if stored else view.skew
        if skew != view.skew:
            view.skew = skew
            step.brokers_to_judge[event.broker] = None


def _note_popped(step: GroupStep, pops: Pops, info: OffsetInfo) -> None:
    """Note how far a queue has been popped, while no hook is silent that would report its acknowledgements."""
    if any(source in step.state.silent for source in pops.sources):
        return
    offsets = {"commit_offset": info.consumer_offset, "pull_offset": info.pull_offset}
    queue = popped_queues.on_offsets(pops.queues, step.state.group, info.mq, step.now, **offsets)
    if queue is not None and queue.unacked:
        step.schedule_check(queue.unacked[0].returned_at + 1)


def _unreadable(event: ConsumeStats) -> tuple[str, ...]:
    if event.error is None:
        return event.unreadable
    return (event.error.remark,) if event.error.code == UNREADABLE else ()


def _note_fall(queue: QueueState, info: OffsetInfo) -> None:
    """Record a commit that went backwards; an offset 0 may mean that none is stored, and does not prove it alone."""
    commit, fallen = info.consumer_offset, queue.fallen_back
    if (queue.commit_offset or 0) > info.broker_offset:
        return  # there is nothing up to that commit to read again
    if fallen is None:
        if queue.commit_offset is None or not queue.commit_known or commit >= queue.commit_offset:
            return
        fallen = queue.fallen_back = FallenBack(queue.commit_offset, queue.commit_offset)
    if commit >= fallen.mark:
        queue.fallen_back = None
    elif commit > 0:
        fallen.to, fallen.answers = min(fallen.to, commit), fallen.answers + 1


def note_first(queue: QueueState, first_offset: int | None) -> None:
    """Record the first message that a queue's owner has of it, which is its position while no commit was seen."""
    if first_offset != queue.first_offset:
        queue.first_offset, queue.stalled_ms = first_offset, 0


def _note_pulled(queue: QueueState, info: OffsetInfo, now: int) -> None:
    """Record up to where the queue is pulled, and that messages were sent to it since the answer before."""
    if info.pull_offset > queue.pull_offset:
        queue.pull_advanced_at = now
    queue.pull_offset = info.pull_offset
    if queue.broker_offset is not None and info.broker_offset > queue.broker_offset:
        queue.filled_after = queue.stats_at


def _note_behind(seen: HookQueueView, info: OffsetInfo, now: int) -> None:
    """Record whether the newest offset is beyond the last commit that the broker's hook saw.

    If the answer shows a commit that the hook has not seen, the hook's is not the last one.
    """
    is_behind = max(0, info.consumer_offset) <= seen.commit_offset < info.broker_offset
    seen.behind_since = (seen.behind_since or now) if is_behind else 0


def _note_newest(step: GroupStep, queue: QueueState, info: OffsetInfo, event: ConsumeStats) -> bool:
    """Record a fall of the newest offset, which voids what was known of the queue; a slave may be behind its master.

    Returns:
        Whether it fell.
    """
    before = queue.broker_offset
    fell = before is not None and info.broker_offset < before and not event.broker_id
    if before is not None and fell:
        if info.mq.topic not in step.facts.popped:  # else nothing is said of it, nor later, while no member pops it
            queue.newest_fall = NewestFall(before, info.broker_offset, event.time)
        queue.lag_trend = queue.fallen_back = None
    if info.consumer_offset <= info.broker_offset:
        queue.beyond_since = 0
    else:
        queue.beyond_since = queue.beyond_since or event.time
    return fell


def _is_read_from_start(step: GroupStep, mq: MessageQueue) -> bool:
    """Return whether clients begin the queue at 0 while no commit is stored, so that nothing before is consumed.

    Java's and Go's clients do so with the group's retry topic, but for one consumeFromWhere
    (RebalancePushImpl.computePullFromWhereWithException).
    """
    info = step.facts.info
    is_own = mq.is_retry and mq.topic == RETRY_TOPIC_PREFIX + step.state.group
    return is_own and info is not None and info.consume_from_where in _FROM_START


def _advance(step: GroupStep, queue: QueueState, info: OffsetInfo, event: ConsumeStats) -> None:
    span = event.asked - queue.stats_at
    covered = queue.stats_at >= step.state.covered_since and 0 < span <= COVERED_INTERVALS * step.policy.poll_interval
    if step.state.returns is not None or info.mq.topic.startswith(RETRY_TOPIC_PREFIX):
        note(step, queue, info, covered=covered)
    advanced = queue.commit_offset is None or info.consumer_offset > queue.commit_offset
    if queue.commit_offset is not None and advanced:
        if info.consumer_offset >= info.pull_offset >= 0 and covered:
            jumps.note_answer(step, queue, info, queue.advanced_at)
        step.state.advanced_at = queue.advanced_at = step.now
    if advanced and info.mq.is_retry:
        skipped.note(step, info.mq, info.consumer_offset)
    _note_pulled(queue, info, event.time)
    waited, newest_before = queue.lag, queue.broker_offset
    if queue.skipped is not None:
        skipped.note_committed(step, queue, queue.skipped, info.consumer_offset)
    is_usual = newest_before is not None and newest_before <= info.broker_offset >= info.consumer_offset
    fell = not (is_usual and not queue.beyond_since) and _note_newest(step, queue, info, event)
    if queue.fallen_back is not None or not advanced:
        _note_fall(queue, info)
    queue.commit_offset, queue.broker_offset, queue.stats_at = info.consumer_offset, info.broker_offset, event.time
    if queue.hook_view is not None:
        _note_behind(queue.hook_view, info, event.time)
    queue.commit_known = queue.commit_known or info.consumer_offset > 0 or _is_read_from_start(step, info.mq)
    waits = queue.lag
    lag_trend.note(queue, waited, waits, covered=covered, policy=step.policy)
    if advanced or fell or not waited or not waits:
        queue.stalled_ms = 0
    elif covered:
        queue.stalled_ms += span
