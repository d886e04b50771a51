"""Messages in flight of a popped queue: random calls, against the truth."""

from hypothesis import given
from hypothesis import strategies as st

from rebalance_model.observe.state import popped
from rebalance_model.observe.state.popped import REVIVED_WITHIN, PoppedQueue
from tests.core.observe.popped_queue import INVISIBLE, T, ack, answer, change, offsets, pop


class Truth:
    """A broker's queue whose every message is known: when it is visible again, until it is finished."""

    def __init__(self):
        self.now = T
        self.end = 0
        self.handles = {}
        """By the offset of a message in flight: when it was popped or renewed, and for how long it is invisible."""
        self.finished = set()
        """What was acked or refused."""
        self.queue = PoppedQueue()
        pop(self.queue)
        answer(self.queue, 0)

    def pops(self, count, *, is_polled):
        self.handles |= dict.fromkeys(range(self.end, self.end + count), (self.now, INVISIBLE))
        self.end += count
        if is_polled:
            answer(self.queue, self.end, self.now)

    def acks(self, picked):
        for offset in picked:
            self.finished.add(offset)
            ack(self.queue, offset, at=self.now, popped_at=self.handles.pop(offset)[0])

    def refuses(self, offset):
        at, invisible = self.handles.pop(offset)
        self.finished.add(offset)
        change(self.queue, offset, 10_000, at=self.now, popped_at=at, invisible=invisible)

    def renews(self, offset):
        at, invisible = self.handles[offset]
        if 0 <= at + invisible - self.now <= 10_000:
            change(self.queue, offset, 60_000, at=self.now, popped_at=at, invisible=invisible)
            self.handles[offset] = (self.now, 60_000)

    def passes(self, seconds):
        self.now += seconds * 1_000
        popped.give_back(self.queue, self.now)
        back = [one for one, (at, ms) in self.handles.items() if at + ms + REVIVED_WITHIN < self.now]
        for offset in back:
            del self.handles[offset]


STEPS = st.lists(
    st.tuples(st.sampled_from(["pop", "ack", "ack", "refuse", "renew", "wait"]), st.integers(0, 31)), max_size=60
)


def played(steps, *, is_polled):
    truth = Truth()
    for what, number in steps:
        handles = sorted(truth.handles)
        if what == "pop":
            truth.pops(1 + number % 8, is_polled=is_polled)
        elif what == "wait":
            truth.passes(number)
        elif handles and what == "ack":
            truth.acks(handles[number % len(handles) :: 1 + number % 3])
        elif handles:
            act = truth.refuses if what == "refuse" else truth.renews
            act(handles[number % len(handles)])
        yield truth


@given(STEPS)
def test_with_answers_exactly_what_is_unfinished_is_in_flight(steps):
    for truth in played(steps, is_polled=True):
        assert offsets(truth.queue) == truth.handles.keys()


@given(STEPS)
def test_without_answers_no_finished_message_is_in_flight(steps):
    """One that was given back may still be: that it was popped is only seen when a later one is acked."""
    for truth in played(steps, is_polled=False):
        assert not truth.finished & offsets(truth.queue)
        assert {one for one in truth.handles if one < truth.queue.popped_to} <= offsets(truth.queue)
