"""An observed process queue decides as the client's own does, with the two clocks by which its stamps are known."""

from rebalance_model.client import ProcessQueue
from rebalance_model.observe.state import ClientView, ProcessQueueView

NEWEST, ASKED = 1_000_000, 5_000_000
"""The newest stamp of a client's answer, and when it was requested: two clocks."""
NOW = ASKED + 30
"""When the answer came."""
CLIENT = ClientView(ASKED, NOW, asked_at_answer=ASKED, client_now=NEWEST)


def view(*, age: int, seen_ms: int, locked: bool | None = True) -> ProcessQueueView:
    stamp, seen = NEWEST - age, ASKED - seen_ms
    return ProcessQueueView(stamp, stamp, stamp, locked, lock_seen=seen, pull_seen=seen, consume_seen=seen)


def test_it_is_the_process_queue_of_the_client():
    assert issubclass(ProcessQueueView, ProcessQueue)


def test_a_lock_is_expired_by_either_clock():
    for age, seen_ms, expired in ((30_000, 30_000, False), (30_001, 0, True), (0, 30_001, True)):
        assert CLIENT.at_answer(view(age=age, seen_ms=seen_ms)).is_lock_expired(NOW) is expired


def test_a_pull_is_expired_by_either_clock():
    for age, seen_ms, expired in ((120_000, 120_000, False), (120_001, 0, True), (0, 120_001, True)):
        assert CLIENT.at_answer(view(age=age, seen_ms=seen_ms)).is_pull_expired(NOW) is expired


def test_a_stamp_of_the_future_is_as_old_as_the_answer():
    """The newest stamp is of the whole answer: of a queue that is left from an earlier one, it may be older."""
    assert CLIENT.at_answer(view(age=-5, seen_ms=-5)).last_pull_timestamp == NOW


def test_a_client_trusts_a_lock_that_it_has_and_has_renewed():
    for age, locked, trusts in ((30_000, True, True), (30_001, True, False), (0, False, False), (0, None, False)):
        assert CLIENT.at_answer(view(age=age, seen_ms=0, locked=locked)).trusts_lock(NOW) is trusts


def test_an_unknown_stamp_is_neither_expired_nor_trusted():
    unknown = CLIENT.at_answer(ProcessQueueView(None, None, None, locked=True))
    assert not any(decides(NOW) for decides in (unknown.is_lock_expired, unknown.is_pull_expired, unknown.trusts_lock))
