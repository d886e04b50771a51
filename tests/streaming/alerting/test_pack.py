"""What goes in one message: a group's alerts together, what is stuck at once, and a summary when there are too many."""

from streaming.alerting.decide import Desk
from streaming.alerting.pack import AHEAD, pack
from tests.streaming.alerting.basis import MINUTE, NOW, SECOND, config, next_delivery, transition


def desk_with(*transitions, now=NOW, **settings):
    desk = Desk(config(**settings))
    for one in transitions:
        desk.take(one, now)
    return desk


def sent(desk, now, *, unlimited=False):
    """The incidents of each message that goes out until there is none."""
    messages = []
    while True:
        pack(desk, "ops", None if unlimited else desk._config.limit, now)
        if next_delivery(desk) is None:
            return messages
        for delivery in list(desk.book.deliveries("ops")):
            names = sorted(alert.transition.incident_id for alert in delivery.alerts)
            messages.append((names, delivery.summary))
            desk.sent(delivery, now)


def many(number, **fields):
    return [transition(f"i{n}", group=f"g{n}", **fields) for n in range(number)]


def test_alerts_of_one_group_within_the_window_go_together_and_other_groups_apart():
    desk = desk_with(transition("a"), transition("x", group="audit"))
    desk.take(transition("b"), NOW + 20 * SECOND)
    assert sent(desk, NOW + 30 * SECOND - 1) == []
    assert sent(desk, NOW + 30 * SECOND) == [(["a", "b"], False), (["x"], False)]


def test_a_stuck_ordered_queue_waits_for_nothing_and_takes_along_what_waits():
    desk = desk_with(transition("a"), transition("x", group="audit"))
    desk.take(transition("stuck", code="ORDERED_QUEUE_STUCK"), NOW + SECOND)
    assert sent(desk, NOW + SECOND) == [(["a", "stuck"], False)]


def test_a_stuck_ordered_queue_goes_before_what_was_due_later():
    desk = desk_with(*many(3))
    desk.take(transition("stuck", code="ORDERED_QUEUE_STUCK"), NOW + SECOND)
    assert sent(desk, NOW + 40 * SECOND)[0] == (["stuck"], False)


def test_a_route_may_have_a_window_of_its_own():
    desk = desk_with(transition("a"), routes=[{"channels": ["ops"], "group_wait": "2m"}])
    assert sent(desk, NOW + 2 * MINUTE - 1) == []
    assert sent(desk, NOW + 2 * MINUTE) == [(["a"], False)]


def test_the_last_message_that_the_limit_allows_is_a_summary_of_all_that_waits():
    desk = desk_with(*many(9), limit={"messages": 3, "span": "10m", "alerts": 20})
    messages = sent(desk, NOW + MINUTE)
    assert messages == [(["i0"], False), (["i1"], False), ([f"i{n}" for n in range(2, 9)], True)]
    desk.take(transition("late", group="g"), NOW + 2 * MINUTE)
    assert sent(desk, NOW + 11 * MINUTE - 1) == []
    assert sent(desk, NOW + 11 * MINUTE) == [(["late"], False)]


def test_the_limit_holds_over_a_restart():
    settings = {"limit": {"messages": 2, "span": "10m", "alerts": 20}}
    desk = desk_with(*many(2), **settings)
    assert len(sent(desk, NOW + MINUTE)) == 2
    again = Desk(config(**settings), desk.take_rows())
    again.take(transition("late", group="g"), NOW + 2 * MINUTE)
    assert sent(again, NOW + 5 * MINUTE) == []


def test_more_alerts_of_a_group_than_people_read_are_a_summary():
    desk = desk_with(*(transition(f"i{n}") for n in range(4)), limit={"messages": 9, "span": "10m", "alerts": 3})
    [(names, summary)] = sent(desk, NOW + MINUTE)
    assert (len(names), summary) == (4, True)


def test_a_channel_that_groups_by_itself_gets_all_at_once():
    desk = desk_with(*many(50), limit={"messages": 1, "span": "10m", "alerts": 1})
    [(names, summary)] = sent(desk, NOW + MINUTE, unlimited=True)
    assert (len(names), summary) == (50, False)


def test_some_messages_are_decided_at_a_time_and_more_when_those_are_done_with():
    desk = desk_with(*many(AHEAD + 3), limit={"messages": 1000, "span": "10m", "alerts": 20})
    pack(desk, "ops", desk._config.limit, NOW + MINUTE)
    desk.take(transition("late", group="g"), NOW)
    pack(desk, "ops", desk._config.limit, NOW + MINUTE)
    decided = list(desk.book.deliveries("ops"))
    assert [one.alerts[0].transition.incident_id for one in decided] == [f"i{n}" for n in range(AHEAD)]
    for delivery in decided:
        assert next_delivery(desk) == delivery
        desk.sent(delivery, NOW + MINUTE)
    assert sent(desk, NOW + MINUTE) == [([f"i{n}"], False) for n in range(AHEAD, AHEAD + 3)] + [(["late"], False)]


def test_what_was_packed_stays_together_with_the_same_key_after_a_restart():
    desk = desk_with(transition("a"), transition("b"))
    pack(desk, "ops", desk._config.limit, NOW + MINUTE)
    before = next_delivery(desk)
    again = Desk(config(), desk.take_rows())
    again.take(transition("c"), NOW + MINUTE)
    pack(again, "ops", again._config.limit, NOW + 2 * MINUTE)
    assert next_delivery(again) == before
