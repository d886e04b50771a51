"""MESSAGES_DEAD_LETTERED: the offset of a group's dead-letter topic rises."""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import RpcError, TopicOffset, TopicStats
from rebalance_model.observe.policy import Policy
from tests.support.incident_rows import evidence, rows
from tests.support.trace import START, Trace

CODE = "MESSAGES_DEAD_LETTERED"
A, B = "broker-a", "broker-b"
TOPIC = "%DLQ%g"
MINUTE = 60
NEVER_MADE = "the topic does not exist"


def answer(trace, at, offset=None, *, low=0, broker=A, replica=0, error=None, topic=TOPIC, asked=None):
    """Fold a broker's answer: the offset after its newest dead letter; `NEVER_MADE`; or an error."""
    trace.tick(at)
    common = trace._poll(START + round(at * 1000)) | {"broker": broker, "broker_id": replica}
    common |= {} if asked is None else {"asked": START + round(asked * 1000)}
    if error is not None:
        trace._fold(TopicStats(topic=topic, error=RpcError(code=error), **common))
        return trace
    made = () if offset is NEVER_MADE else (
        TopicOffset(mq=MessageQueue(topic, broker, 0), min_offset=low, max_offset=offset, last_time=START),
    )  # fmt: skip
    trace._fold(TopicStats(topic=topic, queues=made, **common))
    return trace


def minutes(trace, first, last, offset, **rest):
    """Fold the same answer each minute."""
    for minute in range(first, last + 1):
        answer(trace, minute * MINUTE, offset, **rest)
    return trace


def transitions(trace):
    return [(at / MINUTE, transition) for at, transition, _ in trace.incidents(CODE)]


def test_added_messages_are_an_incident_with_count_offsets_and_rate():
    trace = minutes(Trace(), 0, 2, 12, low=4)
    answer(trace, 3 * MINUTE, 15, low=4)
    assert transitions(trace) == [(3, "OPENED")]
    assert rows(trace, CODE)[0].severity == "warning"
    assert evidence(trace, CODE)[0] == {
        "topic": TOPIC, "added": 3, "added_after": START + 120_000, "last_added_at": START + 180_000,
        "added_per_hour": 180, "stored": 11, "offsets": "broker-a 12..14", "broker": A,
        "first_offset": 12,
    }  # fmt: skip


def test_what_is_there_at_the_first_answer_is_a_near_miss():
    """The time of the messages is unknown: perhaps they were added long ago."""
    assert transitions(minutes(Trace(), 0, 20, 500)) == []


def test_the_first_dead_letter_makes_the_topic_and_is_an_incident():
    trace = answer(minutes(Trace(), 0, 1, NEVER_MADE), 2 * MINUTE, 1)
    assert transitions(trace) == [(2, "OPENED")]
    assert evidence(trace, CODE)[0]["offsets"] == "broker-a 0..0"


def test_it_is_resolved_when_answers_show_no_more_for_ten_minutes():
    trace = minutes(minutes(Trace(), 0, 1, 5), 2, 30, 6)
    assert transitions(trace) == [(2, "OPENED"), (13, "RESOLVED")]
    assert evidence(trace, CODE)[-1]["added"] == 1


def test_more_within_that_time_is_the_same_incident():
    trace = minutes(minutes(minutes(Trace(), 0, 1, 5), 2, 11, 6), 12, 30, 8)
    assert transitions(trace) == [(2, "OPENED"), (23, "RESOLVED")]
    assert evidence(trace, CODE)[-1]["offsets"] == "broker-a 5..7"
    assert evidence(trace, CODE)[-1]["added"] == 3


def test_more_after_that_time_is_another_incident_counted_anew():
    trace = minutes(minutes(minutes(Trace(), 0, 1, 5), 2, 13, 6), 14, 15, 8)
    assert transitions(trace) == [(2, "OPENED"), (13, "RESOLVED"), (14, "OPENED")]
    assert evidence(trace, CODE)[-1]["offsets"] == "broker-a 6..7"


def test_a_gap_in_the_telemetry_without_growth_is_a_near_miss():
    trace = minutes(Trace(), 0, 1, 5)
    trace.falls_silent(2 * MINUTE, "c/poll-1")
    trace.is_back(120 * MINUTE, "c/poll-1")
    assert transitions(minutes(trace, 121, 125, 5)) == []


def test_growth_over_a_gap_is_dated_by_the_answer_before_it():
    trace = minutes(Trace(), 0, 1, 5)
    trace.falls_silent(2 * MINUTE, "c/poll-1")
    trace.is_back(120 * MINUTE, "c/poll-1")
    minutes(trace, 121, 122, 7)
    assert transitions(trace) == [(121, "OPENED")]
    assert evidence(trace, CODE)[0]["added_after"] == START + 60_000
    assert evidence(trace, CODE)[0]["added_per_hour"] == 1


def test_silence_freezes_an_open_incident():
    """The first answer after it, which shows no more, proves that nothing was added meanwhile."""
    trace = minutes(minutes(Trace(), 0, 1, 5), 2, 3, 6)
    trace.falls_silent(4 * MINUTE, "c/poll-1")
    trace.tick(60 * MINUTE).is_back(61 * MINUTE, "c/poll-1")
    assert transitions(trace) == [(2, "OPENED")]
    assert transitions(answer(trace, 62 * MINUTE, 6)) == [(2, "OPENED"), (62, "RESOLVED")]


def test_a_broker_without_an_answer_neither_opens_nor_resolves_it():
    trace = minutes(minutes(Trace(), 0, 1, 5), 2, 2, 6)
    minutes(trace, 3, 60, None, error=-1)
    assert transitions(trace) == [(2, "OPENED")]
    assert transitions(answer(trace, 61 * MINUTE, 6)) == [(2, "OPENED"), (61, "RESOLVED")]


def test_a_broker_that_is_gone_for_good_is_forgotten():
    trace = Trace(policy=Policy(group_memory=40 * MINUTE * 1000))
    minutes(answer(answer(trace, 0, 5), 1, 5, broker=B), 1, 1, 6)
    minutes(trace, 2, 60, 5, broker=B)
    assert transitions(trace) == [(1, "OPENED"), (42, "RESOLVED")]


def test_several_brokers_are_one_incident():
    trace = answer(answer(Trace(), 0, 5), 1, 9, broker=B)
    answer(answer(trace, 60, 6), 61, 9, broker=B)
    answer(answer(trace, 120, 6), 121, 11, broker=B)
    assert [transition for _, transition in transitions(trace)] == ["OPENED"]
    for minute in range(3, 20):
        answer(answer(trace, minute * MINUTE, 6), minute * MINUTE + 1, 11, broker=B)
    assert [transition for _, transition in transitions(trace)] == ["OPENED", "RESOLVED"]
    last = evidence(trace, CODE)[-1]
    assert (last["added"], last["offsets"]) == (3, "broker-a 5..5, broker-b 9..10")
    assert (last["broker"], last["first_offset"]) == (B, 9)


def both(trace, first, last, of_a, of_b):
    """Fold the answers of two brokers each minute; None: no answer."""
    for minute in range(first, last + 1):
        for broker, offset in ((A, of_a), (B, of_b)):
            answer(trace, minute * MINUTE, offset, broker=broker, error=-1 if offset is None else None)
    return trace


def test_it_lasts_until_ten_minutes_after_the_last_message_at_any_broker():
    trace = both(both(Trace(), 0, 1, 5, 5), 2, 7, 6, 5)
    assert transitions(both(trace, 8, 30, 6, 6)) == [(2, "OPENED"), (19, "RESOLVED")]


def test_it_lasts_until_each_broker_that_got_messages_shows_no_more():
    trace = both(both(Trace(), 0, 1, 5, 5), 2, 2, 6, 6)
    both(trace, 3, 40, None, 6)
    assert transitions(trace) == [(2, "OPENED")]
    assert transitions(both(trace, 41, 41, 6, 6)) == [(2, "OPENED"), (41, "RESOLVED")]


def test_a_brokers_restart_that_keeps_its_offsets_is_a_near_miss():
    trace = minutes(Trace(), 0, 1, 5)
    trace.status(70, error=-1).status(90)
    assert transitions(minutes(trace, 2, 4, 5)) == []


def test_a_topic_that_was_deleted_and_made_again_begins_at_its_offsets():
    trace = minutes(minutes(Trace(), 0, 1, 100), 2, 3, NEVER_MADE)
    assert transitions(trace) == []
    assert transitions(answer(trace, 4 * MINUTE, 2)) == [(4, "OPENED")]
    assert evidence(trace, CODE)[0]["offsets"] == "broker-a 0..1"


def test_a_topic_deleted_while_the_incident_is_open_has_no_offsets_to_read():
    trace = minutes(minutes(minutes(Trace(), 0, 1, 100), 2, 2, 103), 3, 20, 3)
    assert transitions(trace) == [(2, "OPENED"), (13, "RESOLVED")]
    resolved = evidence(trace, CODE)[-1]
    assert (resolved["added"], resolved["offsets"]) == (3, "")
    assert "first_offset" not in resolved


def test_offsets_of_a_topic_made_again_begin_there_in_an_open_incident():
    trace = minutes(minutes(minutes(Trace(), 0, 1, 100), 2, 2, 103), 3, 3, NEVER_MADE)
    minutes(trace, 4, 20, 2)
    assert transitions(trace) == [(2, "OPENED"), (15, "RESOLVED")]
    assert (evidence(trace, CODE)[-1]["added"], evidence(trace, CODE)[-1]["offsets"]) == (5, "broker-a 0..1")


def test_what_the_topic_no_longer_stores_is_not_offered_to_be_read():
    trace = answer(minutes(Trace(), 0, 1, 5), 2 * MINUTE, 9, low=7)
    assert evidence(trace, CODE)[0]["offsets"] == "broker-a 7..8"


def test_a_slave_behind_its_master_shows_no_growth_when_it_catches_up():
    trace = minutes(Trace(), 0, 1, 100)
    minutes(trace, 2, 3, 98, replica=1)
    assert transitions(minutes(trace, 4, 5, 100)) == []


def test_an_answer_that_was_overtaken_changes_nothing():
    trace = minutes(Trace(), 0, 1, 5)
    answer(trace, 90, 4, asked=10)
    assert transitions(answer(trace, 2 * MINUTE, 5)) == []


def test_another_topic_is_none_of_the_rules_business():
    trace = minutes(Trace(), 0, 1, 5, topic="%DLQ%other")
    assert transitions(minutes(trace, 2, 3, 6, topic="%DLQ%other")) == []


def test_without_answers_coverage_names_the_rule_as_suspended():
    trace = Trace().poll(0, {})
    assert CODE in trace.state.last_row.coverage
    assert CODE not in answer(trace, 1, 5).state.last_row.coverage
