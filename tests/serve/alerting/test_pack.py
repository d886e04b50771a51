"""The alerts of one message: those of a group together, stuck queues at once, and a summary of too many."""

from streaming.serve.alerting.dispatcher import AHEAD, Dispatcher, pack
from tests.support.alerting import MINUTE, NOW, SECOND, config, next_delivery, transition


def dispatcher_with(*transitions, now=NOW, **settings):
    dispatcher = Dispatcher(config(**settings))
    for one in transitions:
        dispatcher.take(one, now)
    return dispatcher


def sent(dispatcher, now, *, unlimited=False):
    """Send every message that is due; return the incidents of each."""
    messages = []
    while True:
        pack(dispatcher, "ops", None if unlimited else dispatcher._config.limit, now)
        if next_delivery(dispatcher) is None:
            return messages
        for delivery in list(dispatcher.state.deliveries("ops")):
            names = sorted(alert.transition.incident_id for alert in delivery.alerts)
            messages.append((names, delivery.summary))
            dispatcher.sent(delivery, now)


def many(number, **fields):
    return [transition(f"i{n}", group=f"g{n}", **fields) for n in range(number)]


def test_alerts_of_a_group_within_the_window_share_a_message():
    dispatcher = dispatcher_with(transition("a"), transition("x", group="audit"))
    dispatcher.take(transition("b"), NOW + 20 * SECOND)
    assert sent(dispatcher, NOW + 30 * SECOND - 1) == []
    assert sent(dispatcher, NOW + 30 * SECOND) == [(["a", "b"], False), (["x"], False)]


def test_a_stuck_ordered_queue_is_sent_at_once_with_waiting_alerts():
    dispatcher = dispatcher_with(transition("a"), transition("x", group="audit"))
    dispatcher.take(transition("stuck", code="ORDERED_QUEUE_STUCK"), NOW + SECOND)
    assert sent(dispatcher, NOW + SECOND) == [(["a", "stuck"], False)]


def test_a_stuck_ordered_queue_precedes_alerts_that_are_due_later():
    dispatcher = dispatcher_with(*many(3))
    dispatcher.take(transition("stuck", code="ORDERED_QUEUE_STUCK"), NOW + SECOND)
    assert sent(dispatcher, NOW + 40 * SECOND)[0] == (["stuck"], False)


def test_a_route_may_have_a_window_of_its_own():
    dispatcher = dispatcher_with(transition("a"), routes=[{"channels": ["ops"], "group_wait": "2m"}])
    assert sent(dispatcher, NOW + 2 * MINUTE - 1) == []
    assert sent(dispatcher, NOW + 2 * MINUTE) == [(["a"], False)]


def test_the_last_message_within_the_limit_is_a_summary_of_the_rest():
    dispatcher = dispatcher_with(*many(9), limit={"messages": 3, "span": "10m", "alerts": 20})
    messages = sent(dispatcher, NOW + MINUTE)
    assert messages == [(["i0"], False), (["i1"], False), ([f"i{n}" for n in range(2, 9)], True)]
    dispatcher.take(transition("late", group="g"), NOW + 2 * MINUTE)
    assert sent(dispatcher, NOW + 11 * MINUTE - 1) == []
    assert sent(dispatcher, NOW + 11 * MINUTE) == [(["late"], False)]


def test_the_limit_holds_over_a_restart():
    settings = {"limit": {"messages": 2, "span": "10m", "alerts": 20}}
    dispatcher = dispatcher_with(*many(2), **settings)
    assert len(sent(dispatcher, NOW + MINUTE)) == 2
    again = Dispatcher(config(**settings), dispatcher.take_rows())
    again.take(transition("late", group="g"), NOW + 2 * MINUTE)
    assert sent(again, NOW + 5 * MINUTE) == []


def test_too_many_alerts_of_one_group_become_a_summary():
    dispatcher = dispatcher_with(
        *(transition(f"i{n}") for n in range(4)), limit={"messages": 9, "span": "10m", "alerts": 3}
    )
    [(names, summary)] = sent(dispatcher, NOW + MINUTE)
    assert (len(names), summary) == (4, True)


def test_a_channel_that_groups_alerts_itself_gets_them_at_once():
    dispatcher = dispatcher_with(*many(50), limit={"messages": 1, "span": "10m", "alerts": 1})
    [(names, summary)] = sent(dispatcher, NOW + MINUTE, unlimited=True)
    assert (len(names), summary) == (50, False)


def test_only_a_few_messages_are_packed_ahead():
    dispatcher = dispatcher_with(*many(AHEAD + 3), limit={"messages": 1000, "span": "10m", "alerts": 20})
    pack(dispatcher, "ops", dispatcher._config.limit, NOW + MINUTE)
    dispatcher.take(transition("late", group="g"), NOW)
    pack(dispatcher, "ops", dispatcher._config.limit, NOW + MINUTE)
    decided = list(dispatcher.state.deliveries("ops"))
    assert [one.alerts[0].transition.incident_id for one in decided] == [f"i{n}" for n in range(AHEAD)]
    for delivery in decided:
        assert next_delivery(dispatcher) == delivery
        dispatcher.sent(delivery, NOW + MINUTE)
    assert sent(dispatcher, NOW + MINUTE) == [([f"i{n}"], False) for n in range(AHEAD, AHEAD + 3)] + [(["late"], False)]


def test_a_packed_message_keeps_its_alerts_and_key_after_a_restart():
    dispatcher = dispatcher_with(transition("a"), transition("b"))
    pack(dispatcher, "ops", dispatcher._config.limit, NOW + MINUTE)
    before = next_delivery(dispatcher)
    again = Dispatcher(config(), dispatcher.take_rows())
    again.take(transition("c"), NOW + MINUTE)
    pack(again, "ops", again._config.limit, NOW + 2 * MINUTE)
    assert next_delivery(again) == before
