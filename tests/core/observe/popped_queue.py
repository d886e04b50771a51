"""The calls of a popped queue, as its hook and the polls report them, for tests of what is in flight."""

from rebalance_model.observe.events import (
    AckMessage,
    ChangeMessageInvisibletime,
    PopMessage,
)
from rebalance_model.observe.state import popped
from rebalance_model.observe.state.popped import REVIVED_WITHIN, PoppedQueue

T = 1_800_000_000_000
INVISIBLE = 20_000
RETURNED = INVISIBLE + REVIVED_WITHIN
COMMON = {"cluster": "c", "broker": "b", "source": "hook", "source_id": "h@1", "seq": 1, "group": "g"}
COMMON |= {"channel": "127.0.0.1:7", "topic": "t", "queue_id": 0}


def pop(queue, at=T, *, code=None, invisible=INVISIBLE, **more):
    within = {"time": at, "first_time": at, "last_time": at, "count": 1, "invisible_ms": invisible}
    popped.on_pop(queue, PopMessage(**COMMON, **within, code=code, **more))


def ack(queue, *offsets, at=T, popped_at=T, code=0, invisible=INVISIBLE, order=False):
    """Ack offsets, or pairs of the first and the last offset of a range."""
    ranges = tuple(one if isinstance(one, tuple) else (one, one) for one in offsets)
    times = {"time": at, "first_time": at, "last_time": at, "pop_time_min": popped_at, "pop_time_max": popped_at}
    event = AckMessage(**COMMON, **times, code=code, invisible_ms=invisible, order=order, ranges=ranges)
    popped.on_ack(queue, event)


def change(queue, offset, to, *, at=T, popped_at=T, by_proxy=True, code=0, order=False, invisible=INVISIBLE):
    times = {"time": at, "pop_time": popped_at, "invisible_ms": invisible, "changed_ms": to}
    event = ChangeMessageInvisibletime(**COMMON, **times, offset=offset, code=code, order=order)
    return popped.on_change(queue, event, by_proxy=by_proxy)


def answer(queue, popped_to, at=T, *, commit=None):
    popped.on_offsets(queue, at, commit_offset=popped_to if commit is None else commit, pull_offset=popped_to)


def offsets(queue):
    return {one for part in queue.unacked for one in range(part.first, part.last + 1)} | queue.held_messages.keys()


def consumed(acked_to=100):
    """A queue whose messages below an offset are acked."""
    queue = PoppedQueue()
    pop(queue)
    ack(queue, acked_to - 1)
    return queue
