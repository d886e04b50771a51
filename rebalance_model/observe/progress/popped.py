"""Quantities of popped queues: what is ready, and what is in flight.

Ready is what nobody has popped, by a broker's answer. In flight is what was popped and is neither acknowledged nor
given back, by hooks (`observe.state.popped`). The lag of a queue that is not popped in order is both together: its
commit advances when messages are handed out. It is a lower bound while one of both is unknown. In order the commit
stays at the first message without an acknowledgement, and the lag is the offsets' difference, as of any other queue.

Calls that a hook has lost are not known here. A message whose ack is lost counts as in flight until its invisible time
has passed.
"""

from typing import NamedTuple

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import OffsetInfo
from rebalance_model.observe.events.hook_events import PopMessage, PoppedEvent
from rebalance_model.observe.progress.state import ProgressState, behind_by
from rebalance_model.observe.state import popped, popped_queues
from rebalance_model.observe.state.popped import PoppedQueue
from rebalance_model.observe.state.popped_queues import PoppedQueues


class PoppedQuantities(NamedTuple):
    """What is known of a popped queue at an instant; None: unknown."""

    lag: int | None
    lag_is_at_least: bool = True
    in_flight: int | None = None
    in_flight_since: int | None = None
    ready: int | None = None
    next: int | None = None
    """Messages of which the first one is the next to be consumed: in order that may be one in flight."""


def on_call(state: ProgressState, event: PoppedEvent, *, was_restarted: bool) -> None:
    """Process a call of a consumer that pops; that of a broker which has restarted begins again."""
    if state.popped is None:
        state.popped = PoppedQueues()
    if was_restarted:
        popped_queues.forget(state.popped, event.broker, event.time)
    popped_queues.fold(state.popped, event, by_proxy=True)  # a client's own refusal as late as that is rare
    if isinstance(event, PopMessage):
        popped_queues.forget_unused(state.popped, event.time)


def may_be_popped(state: ProgressState) -> bool:
    """Return whether any queue of the group is popped, by hooks or by a client's last answer."""
    return state.popped is not None or any(client.popped for client in state.clients.values())


def at_answer(state: ProgressState, group: str, info: OffsetInfo, at: int) -> PoppedQuantities | None:
    """Return the quantities of a queue by a broker's answer; None if nobody pops it, as far as is known."""
    offsets = {"commit_offset": info.consumer_offset, "pull_offset": info.pull_offset}
    queue = popped_queues.on_offsets(state.popped, group, info.mq, at, **offsets) if state.popped is not None else None
    popped_to = max(offsets.values())
    if queue is None:
        is_popped = any(info.mq.topic in client.popped for client in state.clients.values())
        ready = behind_by(info.broker_offset, popped_to) if popped_to >= 0 else None
        return PoppedQuantities(lag=ready, ready=ready, next=ready) if is_popped else None
    if queue.order:
        lag, count = behind_by(info.broker_offset, info.consumer_offset), popped.in_flight(queue, at)
        ready = max(0, lag - count) if lag is not None and count is not None else None
        return PoppedQuantities(lag, False, count, popped.in_flight_since(queue, at), ready, lag)  # noqa: FBT003  a tuple
    ready = behind_by(info.broker_offset, popped_to) if popped_to >= 0 else None
    return _with_in_flight(queue, ready, at)


def by_hook(state: ProgressState, broker: str, topic: str, queue_id: int, at: int) -> PoppedQuantities | None:
    """Return the quantities of a queue by hooks alone, which do not show what is ready; None if nobody pops it."""
    if state.popped is None:
        return None
    queue = state.popped.queues.get(MessageQueue(topic, broker, queue_id))
    return _with_in_flight(queue, None, at) if queue is not None else None


def _with_in_flight(queue: PoppedQueue, ready: int | None, at: int) -> PoppedQuantities:
    popped.give_back(queue, at)
    count = popped.in_flight(queue, at)
    parts = [one for one in (ready, count) if one is not None]
    at_least = len(parts) < 2 or popped.is_at_least(queue, at)
    since = popped.in_flight_since(queue, at)
    return PoppedQuantities(sum(parts) if parts else None, at_least, count, since, ready, ready)
