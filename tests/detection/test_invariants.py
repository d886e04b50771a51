"""The invariants of every seed find what breaks them."""

from types import SimpleNamespace

from rebalance_model.entities import MessageQueue
from tests.detection.invariants import STANDS, Health, Standing, Warned, lost_by_both

QUEUE = MessageQueue("T", "b", 0)


def health_with(*health: tuple[int, str]) -> Health:
    rows = Health()
    for now, value in health:
        rows.add(now, SimpleNamespace(health=value))
    return rows


def stood(*samples: tuple[int, int, int]) -> Standing:
    """Return what stands by samples of time, commit and lag."""
    standing = Standing()
    for now, commit, lag in samples:
        values = {"committed": lambda _, commit=commit: commit, "lag": lambda _, lag=lag: lag}
        standing.add(SimpleNamespace(now=now, broadcasts=False, routed=[QUEUE], **values))
    return standing


def test_a_queue_that_stands_in_a_group_shown_ok_is_found():
    standing = stood((0, 5, 1), (STANDS - 1, 5, 9), (STANDS, 5, 9))
    assert standing.shown_ok(health_with((0, "OK")), "poll") == ["T@b:0 stands, and its group is shown OK"]
    assert standing.shown_ok(health_with((0, "OK"), (STANDS - 1, "WARN")), "poll") == []


def test_a_queue_that_advances_or_has_no_messages_does_not_stand():
    assert stood((0, 5, 1), (9, 6, 9), (STANDS, 6, 9)).long == []
    assert stood((0, 5, 1), (9, 5, 0), (STANDS, 5, 9)).long == []


def test_a_hook_does_not_know_a_queue_without_any_call():
    standing = stood((0, -1, 1), (STANDS, -1, 9))
    assert standing.shown_ok(health_with((0, "OK")), "hook") == []
    assert standing.shown_ok(health_with((0, "OK")), "poll") != []


def test_what_one_source_warns_of_and_both_show_ok_is_found():
    warned = [Warned("CODE T@b:0", 100_000, None), Warned("short", 100_000, 140_000)]
    assert len(list(lost_by_both(warned, health_with((0, "OK"))))) == 1
    assert list(lost_by_both(warned, health_with((0, "OK"), (110_000, "WARN")))) == []
