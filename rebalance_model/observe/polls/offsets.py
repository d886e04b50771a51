"""Fold a broker's offsets (GET_CONSUME_STATS), and count for how long a queue with lag has not advanced.

Only covered time counts: the time between two answers not further apart than three poll intervals, with nothing lost in
between. A broker that does not answer, or a collector that was away, adds nothing: unobserved time is not judged.

Count by polls the messages that come back to consumers that pop: each is stored in the group's retry topic again.

A broker stores a message there that was refused, or was not acknowledged in time, once its invisible time is over. From
offsets alone the two can't be distinguished. The topic that classic consumers send messages back to, ``%RETRY%group``,
is another one.

Track lag over a window of answers, and the usual rates to compare with.

No fixed number of messages defines a high lag: each queue is compared with itself. Its lag is rising since the answer
after which it has been higher each time, and has not fallen. A constant lag is not rising; nor has a rise begun while
the lag stands and each message that waited at one answer is consumed at the next. The usual rates of production and
consumption are measured over at least a whole window without such a rise.

Fold the offsets of a group's dead-letter topic (GET_TOPIC_STATS_INFO): has it got messages since the last answer?

The first answer of a broker is where counting begins. A lower offset than before means that the topic was deleted, or
that the broker has lost messages: counting begins again there. A slave may be behind its master, so a lower offset of
a slave means nothing.
"""

from rebalance_model.entities import RETRY_TOPIC_PREFIX, MessageQueue, bounded
from rebalance_model.observe.events import UNREADABLE, ConsumeStats, OffsetInfo, TopicOffset, TopicStats
from rebalance_model.observe.group import deleted_group, ended_queues, expiring, jumps, skipped
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import (
    BrokerView,
    ClientView,
    FallenBack,
    HookQueueView,
    LagTrend,
    NewestFall,
    PolledReturns,
    Pops,
    QueueState,
    popped_queues,
)
from rebalance_model.observe.state.clocks import Bounds
from rebalance_model.observe.state.group import DeadLetters, added
from rebalance_model.observe.state.popped_queues import popped_topic
from rebalance_model.observe.step import GroupStep


def bounds(former: ClientView | None, newest: int, answered: int) -> Bounds | None:
    """Return the bounds of the client's clock minus the collector's, milliseconds; None: unknown.

    Args:
        former: the client's former view.
        newest: the newest stamp in its answer, by its clock.
        answered: when that answer came, by the collector's clock.
    """
    if former is None or not former.client_now or newest <= former.client_now:
        return former.skew if former is not None else None
    return narrowed(former.skew, newest - answered, newest - former.asked_at_answer)


def narrowed(former: Bounds | None, low: int, high: int) -> Bounds:
    """Return the intersection of two bounds; if it is empty, the bounds of the later answer."""
    if former is not None and max(low, former[0]) <= min(high, former[1]):
        return max(low, former[0]), min(high, former[1])
    return low, high


_MASTER = 0
_QUEUE = 0
"""A broker writes to this queue only, however many the topic has (AbstractSendMessageProcessor.DLQ_NUMS_PER_GROUP)."""


def fold_topic_stats(step: GroupStep, event: TopicStats) -> None:
    """Process the offsets of the group's dead-letter topic, or of a topic that it consumes."""
    if not event.is_dead_letters:
        expiring.note_answer(step, event)
        return
    step.changed("REPORT")
    if event.queues is not None:
        _fold_dead_letters(step, event, event.queues)


def _fold_dead_letters(step: GroupStep, event: TopicStats, queues: tuple[TopicOffset, ...]) -> None:
    """Compare the broker's offset with that of its answer before; an answer without a topic means offset 0."""
    state, broker = step.state, event.broker
    row = next((one for one in queues if one.mq.queue_id == _QUEUE), None)
    low, high = (row.min_offset, row.max_offset) if row is not None else (0, 0)
    letters = state.dead_letters.get(broker)
    if letters is not None and (
        event.asked < letters.asked or (high < letters.max_offset and event.broker_id != _MASTER)
    ):
        return
    growing = added(state.dead_letters, step.policy.dead_letters_clear_after)
    _forget_brokers(step)
    if growing:
        step.changed("DEAD_LETTERS")
    if letters is None:
        state.dead_letters[broker] = DeadLetters(event.asked, step.now, low, high)
        return
    if high > letters.max_offset:
        step.changed("DEAD_LETTERS")
        if not growing:
            for one in state.dead_letters.values():
                one.added = 0
        if not letters.added:
            letters.first_offset, letters.added_after = letters.max_offset, letters.asked
        letters.added = bounded(letters.added + high - letters.max_offset)
        letters.last_added_at = step.now
    elif high < letters.max_offset:
        letters.first_offset = high
    letters.asked, letters.time, letters.min_offset, letters.max_offset = event.asked, step.now, low, high


def _forget_brokers(step: GroupStep) -> None:
    """Forget brokers that have not answered for so long that they are gone."""
    known = step.state.dead_letters
    for broker in [name for name, one in known.items() if step.now - one.time > step.policy.group_memory]:
        del known[broker]


HOUR = 3_600_000
STEPS = 4
"""Growing lag reaches another maximum in each of this many parts of a window."""


def note_lag(
    queue: QueueState, before: tuple[int | None, int | None], lag: int | None, *, covered: bool, policy: Policy
) -> None:
    """Process an answer of the broker, which is already applied to the queue.

    ``before`` are the newest offset and the lag (messages) in the answer before; ``covered`` if nothing is missing
    between the two.
    """
    newest_before, lag_before = before
    now, broker, trend = queue.stats_at, queue.broker_offset, queue.lag_trend
    if lag is None or broker is None:
        return
    commit = broker - lag
    if trend is None or not covered or lag_before is None:
        usual = (trend.produced, trend.consumed) if trend is not None else (None, None)
        queue.lag_trend = LagTrend(now, commit, broker, now, commit, broker, lag, now, *usual)
    elif (
        lag < lag_before
        or lag <= trend.rising_broker - trend.rising_commit
        or (lag == lag_before and commit >= (newest_before or 0))
    ):
        if now - trend.at >= policy.lag_growth_window:
            _measure(trend, now, commit, broker, policy)
        trend.rising_since, trend.rising_commit, trend.rising_broker = now, commit, broker
        trend.top, trend.top_at = lag, now
    elif lag > trend.top:
        if now - trend.top_at > policy.lag_growth_window // STEPS:  # it was constant: this is another rise
            trend.rising_since, trend.rising_commit, trend.rising_broker = now, commit, broker
        trend.top, trend.top_at = lag, now


def is_growing(queue: QueueState, policy: Policy) -> bool:
    """Return whether lag has grown in a full window, to its end, and never fell in it."""
    trend, window = queue.lag_trend, policy.lag_growth_window
    if trend is None or queue.stats_at - trend.rising_since < window:
        return False
    return queue.stats_at - trend.top_at <= window // STEPS


def of_late(queue: QueueState) -> tuple[int, int]:
    """Return the messages per hour that were produced and consumed while lag has been rising."""
    trend, now = queue.lag_trend, queue.stats_at
    if trend is None or now <= trend.rising_since:
        return 0, 0
    hours = (now - trend.rising_since) / HOUR
    produced, consumed = queue.broker_offset or 0, queue.position or 0
    return round((produced - trend.rising_broker) / hours), round((consumed - trend.rising_commit) / hours)


def _measure(trend: LagTrend, now: int, commit: int, broker: int, policy: Policy) -> None:
    """End a measuring period when lag stops rising: it yields the usual rates, unless lag had risen for long."""
    span, had_risen = now - trend.at, now - trend.rising_since > policy.lag_growth_window
    if span and not had_risen:
        trend.produced = bounded((broker - trend.broker) * HOUR // span)
        trend.consumed = bounded((commit - trend.commit) * HOUR // span)
    trend.at, trend.commit, trend.broker = now, commit, broker


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
    state, judged, stored = step.state, [], 0
    view, queues, pops = state.views.get(event.broker), state.queues, state.pops
    asked_before = view.stats_asked if view is not None else 0
    deleted_group.note_answer(view, event)
    step.touched |= dict.fromkeys([info.mq for info in event.queues or ()])
    for info in event.queues or ():
        mq = info.mq
        queue = queues.get(mq) or step.queue(mq)
        if event.asked < queue.stats_at:
            continue
        if queue.ended is not None:
            ended_queues.return_queue(step, mq, queue)
        if 0 < asked_before <= queue.stats_at and info.consumer_offset > (queue.broker_offset or 0):
            stored = max(stored, info.last_time)  # of a message newer than the answer before
        if queue.commit_offset is None:
            step.changed("REPORT")
        _advance(step, queue, info, event)
        if pops is not None:
            _note_popped(step, pops, info)
        judged.append(mq)
    if view is not None:
        _note_of_broker(step, view, event, stored)
    step.queues_to_judge |= {mq: "OFFSETS" for mq in judged if mq not in step.queues_to_judge}
    if not state.members:
        step.changed("OFFSETS")


def _note_of_broker(step: GroupStep, view: BrokerView, event: ConsumeStats, stored: int) -> None:
    """Note what of the answer can't be read, and bound the broker's clock by when it stored a new message; 0: none."""
    asked_before, unreadable = view.stats_asked, _unreadable(event)
    if view.unreadable_offsets != unreadable:
        view.unreadable_offsets = unreadable
        step.changed("REPORT")
    if event.queues is not None:
        view.stats_asked = max(asked_before, event.asked)
        skew = narrowed(view.skew, stored - event.time, stored - asked_before) if stored else view.skew
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
        fallen = queue.fallen_back = FallenBack(queue.commit_offset, queue.commit_offset, since=queue.stats_at)
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


def _note_advanced(step: GroupStep, queue: QueueState, info: OffsetInfo, *, covered: bool) -> None:
    """Process a higher commit than in the answer before, which is not applied yet."""
    before = queue.commit_offset
    if before is None:
        return
    if info.consumer_offset >= info.pull_offset >= 0 and before >= 0 and covered:
        jumps.note_answer(step, queue, info, before)
    if queue.oldest is not None:
        jumps.note_expired(step, queue, info)
    step.state.advanced_at = queue.advanced_at = step.now


def _advance(step: GroupStep, queue: QueueState, info: OffsetInfo, event: ConsumeStats) -> None:
    state, span, now = step.state, event.asked - queue.stats_at, event.time
    commit, newest, is_retry = info.consumer_offset, info.broker_offset, info.mq.topic.startswith(RETRY_TOPIC_PREFIX)
    commit_before, newest_before, waited = queue.commit_offset, queue.broker_offset, queue.lag
    covered = queue.stats_at >= state.covered_since and 0 < span <= COVERED_INTERVALS * step.policy.poll_interval
    if is_retry or state.returns is not None:
        note(step, queue, info, covered=covered)
    advanced = commit_before is None or commit > commit_before
    if advanced:
        _note_advanced(step, queue, info, covered=covered)
    if advanced and is_retry:
        skipped.note(step, info.mq, commit)
    _note_pulled(queue, info, now)
    if queue.skipped is not None:
        skipped.note_committed(step, queue, queue.skipped, commit)
    is_usual = newest_before is not None and newest_before <= newest >= commit
    fell = not (is_usual and not queue.beyond_since) and _note_newest(step, queue, info, event)
    if queue.fallen_back is not None or not advanced:
        _note_fall(queue, info)
    queue.commit_offset, queue.broker_offset, queue.stats_at = commit, newest, now
    if queue.hook_view is not None:
        _note_behind(queue.hook_view, info, now)
    queue.commit_known = queue.commit_known or commit > 0 or _is_read_from_start(step, info.mq)
    waits = newest - commit if queue.commit_known and newest >= commit else queue.lag
    note_lag(queue, (newest_before, waited), waits, covered=covered, policy=step.policy)
    if advanced or fell or not waited or not waits:
        queue.stalled_ms = 0
    elif covered:
        queue.stalled_ms += span
