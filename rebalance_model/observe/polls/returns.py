"""Count by polls the messages that come back to consumers that pop: each is stored in the group's retry topic again.

A broker stores a message there that was refused, or was not acknowledged in time, once its invisible time is over. From
offsets alone the two can't be distinguished. The topic that classic consumers send messages back to, ``%RETRY%group``,
is another one.
"""

from rebalance_model.observe.events import OffsetInfo
from rebalance_model.observe.state import PolledReturns, QueueState
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
