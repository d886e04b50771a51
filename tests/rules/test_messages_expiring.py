"""MESSAGES_EXPIRING: the store's oldest message comes closer to what a group has not read."""

import pytest

from rebalance_model.observe.events import ConsumeStats, OffsetInfo, RpcError, TopicOffset, TopicStats
from rebalance_model.observe.policy import Policy
from tests.support.incident_rows import evidence, rows
from tests.support.trace import START, TOPIC, Trace, holding, mq

CODE = "MESSAGES_EXPIRING"
NEWEST = 100_000
MINUTE = 60


def answer(trace, at, oldest, *, broker_id=0, error=None):
    """Fold the broker's answer to GET_TOPIC_STATS_INFO about queue 0."""
    common = trace.tick(at)._poll(START + round(at * 1000)) | {"broker_id": broker_id, "topic": TOPIC}
    row = TopicOffset(mq=mq(0), min_offset=oldest, max_offset=NEWEST, last_time=START)
    trace._fold(TopicStats(**common, **({"queues": (row,)} if error is None else {"error": error})))


def followed(oldest, commit, *, minutes=20, trace=None, asks=True, members=None, **answers):
    """Poll every 10 s for so many minutes: by the minute, where stored messages begin, and the commit of queue 0."""
    trace = trace or Trace(route=1)
    first = (trace.now - START) // 1000 + 10 if trace.now else 0
    for at in range(first, first + minutes * MINUTE, 10):
        trace.poll(at, {"a": holding(0)} if members is None else members, {0: (NEWEST, round(commit(at / MINUTE)))})
        if asks:
            answer(trace, at, round(oldest(at / MINUTE)), **answers)
    return trace


def transitions(trace):
    return [(round(at / MINUTE, 1), transition, cause) for at, transition, cause in trace.incidents(CODE)]


def steps(each, begin=0):
    """Return a store that deletes so many messages at the full minutes."""
    return lambda minute: begin + each * int(minute)


def test_a_store_that_overtakes_its_reader_is_a_warning_with_the_time_left():
    """It deletes 1,000 messages a minute, of which 200 are read: the 20,000 between last for 25 minutes."""
    trace = followed(steps(1_000), lambda minute: 20_000 + 200 * minute, minutes=10)
    [(minute, transition, cause)] = transitions(trace)
    assert (transition, cause, rows(trace, CODE)[0].severity) == ("OPENED", CODE, "warning")
    assert 3 <= minute <= 5  # two minutes after the first deletion
    seen = evidence(trace, CODE)[0]
    assert seen["time_left_ms"] == pytest.approx((20_000 - 800 * minute) / 800 * 60_000, rel=0.15)
    assert (seen["queues"], seen["queue_names"], seen["messages_deleted"]) == (1, f"{TOPIC}@broker-a:0", 0)
    assert seen["deleted_per_hour"] == pytest.approx(60_000, rel=0.4)
    assert seen["consumed_per_hour"] == pytest.approx(12_000, rel=0.1)


def test_more_time_than_the_policy_says_is_a_near_miss():
    def read(minute):
        return 30_000 + 200 * minute

    assert transitions(followed(steps(1_000), read, minutes=5)) == []
    trace = followed(steps(1_000), read, minutes=5, trace=Trace(Policy(expiring_within=3_600_000), route=1))
    assert [transition for _, transition, _ in transitions(trace)] == ["OPENED"]


def test_a_reader_that_gains_on_the_deletion_is_a_near_miss_and_a_recovery():
    assert transitions(followed(steps(1_000), lambda minute: 10_000 + 1_100 * minute, minutes=15)) == []
    trace = followed(steps(1_000), lambda minute: 10_000 + 200 * minute, minutes=6)
    assert [transition for _, transition, _ in transitions(trace)] == ["OPENED"]
    followed(steps(1_000), lambda minute: 11_200 + 6_000 * (minute - 6), trace=trace, minutes=40, asks=True)
    assert [transition for _, transition, _ in transitions(trace)] == ["OPENED", "RESOLVED"]


def test_deleted_messages_are_critical_until_the_group_continues():
    """The group continues after them: MESSAGES_STRANDED has what it skipped."""
    trace = followed(steps(1_000), lambda _: 5_500, minutes=8)
    assert [(transition, cause) for _, transition, cause in transitions(trace)] == [
        ("OPENED", CODE),
        ("ESCALATED", f"{CODE} DELETED"),
    ]
    assert evidence(trace, CODE)[1]["messages_deleted"] == 500
    assert rows(trace, CODE)[1].severity == "critical"
    followed(lambda _: 7_000, lambda minute: 7_000 + 2_000 * (minute - 8), trace=trace, minutes=40)
    assert transitions(trace)[-1][1] == "RESOLVED"


def test_the_pace_of_a_first_deletion_is_unknown():
    trace = followed(lambda minute: 0 if minute < 3 else 7_000, lambda _: 5_500, minutes=4)
    assert [(transition, cause) for _, transition, cause in transitions(trace)] == [("OPENED", f"{CODE} DELETED")]
    found = evidence(trace, CODE)[0]
    assert (found["messages_deleted"], found["time_left_ms"]) == (1_500, 0)
    assert (found["deleted_per_hour"], found["consumed_per_hour"]) == (None, None)


def test_a_jump_beyond_what_was_deleted_is_counted_once():
    """The client drops the queue, and its commit is far beyond what it pulled."""
    trace = followed(lambda minute: 0 if minute < 3 else 7_000, lambda _: 5_500, minutes=4)
    for at, commit, members in ((240, 5_500, {"a": holding(0)}), (250, 30_000, {"a": holding()})):
        trace.poll(at, members)
        rows = OffsetInfo(mq=mq(0), broker_offset=NEWEST, consumer_offset=commit, pull_offset=6_000)
        trace._fold(ConsumeStats(queues=(rows,), **trace._poll(trace.now)))
    trace.poll(270, {"a": holding(0)})
    assert [what for _, _, what in trace.incidents("MESSAGES_STRANDED")] == ["MESSAGES_STRANDED JUMPED"]
    assert evidence(trace, "MESSAGES_STRANDED")[0]["messages"] == 24_000


def test_a_group_that_continues_after_them_has_left_them_behind():
    """It is not late any more, so the collector does not ask about it; a client of 5.x pulls on at once."""
    trace = followed(steps(1_000), lambda _: 5_500, minutes=8)
    followed(steps(0), lambda _: 7_500, trace=trace, asks=False, minutes=1)
    assert transitions(trace)[-1] == (8.0, "RESOLVED", f"{CODE} DELETED")
    assert [what for _, _, what in trace.incidents("MESSAGES_STRANDED")] == ["MESSAGES_STRANDED EXPIRED"]
    seen = evidence(trace, "MESSAGES_STRANDED")[0]
    assert (seen["messages"], seen["queue_names"]) == (1_500, f"{TOPIC}@broker-a:0")


def test_a_group_that_reads_them_before_is_a_near_miss():
    trace = followed(steps(1_000), lambda minute: 5_500 if minute < 5 else 9_000, minutes=8)
    assert trace.incidents("MESSAGES_STRANDED") == []


def test_nothing_is_said_of_what_is_gone_at_the_first_answer():
    """A group that was left long ago: its commit stands far below the oldest message."""
    assert transitions(followed(steps(1_000, begin=9_000), lambda _: 5_500)) == []


def test_nothing_is_said_of_a_group_that_never_had_a_member():
    assert transitions(followed(steps(1_000), lambda _: 5_500, members={})) == []


def test_an_idle_topic_whose_messages_are_all_read_is_a_near_miss():
    assert transitions(followed(steps(10_000), lambda _: NEWEST, minutes=12)) == []


def test_a_burst_of_deletion_far_from_the_reader_is_a_near_miss():
    """At deleteWhen a day's messages go within minutes: a reader near the newest message does not wait for that."""
    assert transitions(followed(steps(10_000), lambda _: NEWEST - 1_000, minutes=9)) == []


def test_files_that_are_deleted_together_are_no_pace():
    trace = followed(lambda minute: min(9_000, 3_000 * int(minute * 6)), lambda _: 10_000, minutes=30)
    assert transitions(trace) == []


def test_a_deletion_that_ends_resolves_it():
    """The disk has room again: three minutes of deletion count for three more."""
    trace = followed(lambda minute: 1_000 * min(4, int(minute)), lambda _: 20_000, minutes=60)
    assert [transition for _, transition, _ in transitions(trace)] == ["OPENED", "RESOLVED"]


def test_a_slave_has_its_own_oldest_message():
    assert transitions(followed(steps(1_000), lambda _: 5_500, broker_id=1)) == []


def test_an_answer_that_is_not_repeated_ends_it():
    """The collector asks about the topic with the largest lag: another one is further behind now."""
    trace = followed(steps(1_000), lambda _: 20_000, minutes=6)
    followed(steps(1_000), lambda _: 20_000, trace=trace, asks=False, minutes=40)
    assert [transition for _, transition, _ in transitions(trace)] == ["OPENED", "RESOLVED"]


def test_a_refused_request_shows_nothing():
    assert transitions(followed(steps(1_000), lambda _: 5_500, error=RpcError(code=16))) == []


def test_a_topic_that_is_created_again_is_measured_from_there():
    trace = followed(steps(1_000, begin=40_000), lambda _: 60_000, minutes=2)
    followed(steps(1_000, begin=-2_000), lambda _: 20_000, trace=trace, minutes=6)
    assert [transition for _, transition, _ in transitions(trace)] == ["OPENED"]


def test_what_the_owner_has_pulled_is_not_lost():
    """Its memory has the messages that the store deletes: the commit alone stands."""
    trace = Trace(route=1)
    for at in range(0, 10 * MINUTE, 10):
        trace.poll(at, {"a": holding(0)}, {0: (NEWEST, 5_500)})
        trace.state.queues[mq(0)].pull_offset = 12_000
        answer(trace, at, 1_000 * (at // MINUTE))
    assert "DELETED" not in str(transitions(trace))


def test_the_pace_is_that_of_the_last_hour():
    trace = followed(lambda minute: 6_000 * int(minute / 10), lambda _: 90_000, minutes=125)
    oldest = trace.state.queues[mq(0)].oldest
    assert 30 * 60_000 <= oldest.deleted_at - oldest.since.at <= 60 * 60_000
    assert transitions(trace) == []  # the reader is nearer to the newest message
