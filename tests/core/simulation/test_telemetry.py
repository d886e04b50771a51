"""The two collectors of a simulated cluster keep to the contract of `observe.events`."""

import itertools
from collections import defaultdict

import msgspec
import pytest

from rebalance_model.entities import INT64_MAX, MessageQueue
from rebalance_model.observe.events import (
    Answer,
    BrokerStatus,
    ClockSeen,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeTimeSpan,
    GetConsumerListByGroup,
    LockBatchMq,
    PullMessage,
    TelemetryLost,
    Tick,
    TopicRoute,
    TopicStats,
    UnlockBatchMq,
    UnregisterClient,
    UpdateConsumerOffset,
    key_of,
)
from rebalance_model.observe.events.decoding import decode
from simulation.cluster import START
from simulation.truth import Fault
from tests.support.simulated import BEGAN, simulate, small


@pytest.fixture(scope="module")
def run():
    return simulate(
        small(
            {"at": 40, "do": "freeze", "who": "c-3", "lasts": 30},
            {"at": 80, "do": "stop-broker", "broker": "broker-a", "lasts": 12},
            {"at": 120, "do": "leave", "who": "c-1"},
            minutes=3,
        )
    )


def test_every_event_is_one_that_the_job_accepts(run):
    for event in run.events:
        assert decode(msgspec.json.encode(event), key=None, stamp=INT64_MAX, keyed=False) == event
    assert {event.source for event in run.events} == {"sim"}


def test_each_source_counts_without_a_gap_and_its_time_never_falls(run):
    last = defaultdict(int)
    times = defaultdict(int)
    for event in run.events:
        key = event.source_id, key_of(event)
        assert event.seq == last[key] + 1
        assert event.time >= times[event.source_id]
        last[key], times[event.source_id] = event.seq, event.time
    sources = {event.source_id.partition("@")[0] for event in run.events}
    assert sources == {"poll-1", "hook-broker-a"}
    assert len({event.source_id for event in run.events}) == 3  # the broker booted twice


def test_the_collector_ticks_every_second_and_polls_every_ten(run):
    ticks = [one.time for one in run.of(Tick) if one.source_id.startswith("poll")]
    assert {b - a for a, b in itertools.pairwise(ticks)} == {1000}
    rounds = [one.time for one in run.of(BrokerStatus) if one.source_id.startswith("poll")]
    assert rounds[0] - BEGAN <= 10
    assert {b - a for a, b in itertools.pairwise(rounds)} == {10_000}


def test_dead_letters_are_asked_for_once_a_minute_by_each_broker(run):
    asked = [(round((one.time - START) / 1000), one.topic, one.error and one.error.code) for one in run.of(TopicStats)]
    assert asked == [(62, "%DLQ%g", None), (122, "%DLQ%g", None)]  # the first round finds no group yet


def test_a_round_reports_route_members_offsets_and_clients_in_this_order(run):
    round_of = [one for one in run.events if one.source_id.startswith("poll") and 22_000 <= one.time - START < 31_000]
    kinds = [type(one) for one in round_of if type(one) is not Tick]
    of_offsets = [ConsumeStats, ConsumeTimeSpan, ConsumeTimeSpan]  # one of the topic, one of its retry topic
    assert kinds == [BrokerStatus, ConsumerConnection, *of_offsets, TopicRoute, *[ConsumerRunningInfo] * 3]


def test_in_the_first_round_a_route_comes_before_what_names_its_topic(run):
    route = next(one for one in run.events if isinstance(one, TopicRoute))
    named = next(one for one in run.of(ConsumerConnection) if one.subscriptions)
    assert run.events.index(route) < run.events.index(named)
    assert named.answered == route.asked < route.answered == named.time


def test_every_answer_has_the_times_of_request_and_answer(run):
    for one in run.of(Answer):
        assert BEGAN <= one.asked < one.answered <= one.time
    assert all(one.time - one.answered <= 2 for one in run.of(Answer)), "only the first routes are waited for"


def test_a_waiting_time_is_that_of_the_next_message_of_the_queue():
    run = simulate(small({"at": 30, "do": "hang", "who": "c-3"}, minutes=2))
    last = run.of(ConsumeTimeSpan)
    spans = {row.mq: row.delay_time for one in last if one.answered > START + 110_000 for row in one.queues}
    stats = {row.mq: row for one in run.of(ConsumeStats) if one.answered > START + 110_000 for row in one.queues}
    cluster = run.cluster
    [asked] = {one.asked for one in last if one.answered > START + 110_000}
    waiting = {mq for mq, row in stats.items() if row.broker_offset > row.consumer_offset}
    assert {mq.queue_id for mq in waiting if not mq.is_retry} >= {6, 7}
    for mq, row in stats.items():
        arrival = cluster.brokers["broker-a"].logs[mq].arrival(row.consumer_offset)
        expected = asked + 1 - arrival // 1_000 if mq in waiting else 0
        assert abs(spans[mq] - expected) <= 1


def test_a_hook_sees_a_request_between_its_sending_and_its_answer():
    run = simulate(small(minutes=1, brokers=[{"name": "broker-a", "clock_offset_ms": 50_000}]))
    statuses = {one.asked: one for one in run.of(BrokerStatus) if one.source_id.startswith("poll")}
    seen = run.of(ClockSeen)
    assert len(seen) == len(statuses) == 6
    for event in seen:
        status = statuses[event.asked]
        assert event.collector == status.source_id
        assert event.asked <= event.seen - 50_000 <= status.answered == event.asked + 2
        assert event.seen == event.time
        assert 0 <= event.seen - status.now < 1_000


def test_only_what_stops_cleanly_ends_with_a_last_tick():
    stops = [
        {"at": 20, "do": "stop-broker", "broker": "broker-a", "lasts": 10},
        {"at": 40, "do": "collector-away", "lasts": 5},
    ]
    run = simulate(small(*stops, minutes=1))
    run.cluster.end()
    last = {one.source_id: one for one in run.events}
    ends = [(one.source_id.partition("@")[0], one.time - START) for one in run.of(Tick) if one.end]
    assert ends == [("hook-broker-a", 20_000), ("poll-1", 60_000), ("hook-broker-a", 60_000)]
    assert [type(one) is Tick and one.end for one in last.values()] == [True, False, True, True]


@pytest.mark.parametrize("is_async", [True, False])
def test_a_hook_reports_newest_offsets_only_without_async_send(is_async):
    run = simulate(small(minutes=1, brokers=[{"name": "broker-a", "async_send_enable": is_async}]))
    pulls, commits = run.of(PullMessage), run.of(UpdateConsumerOffset)
    if is_async:
        assert {one.broker_offset for one in [*pulls, *commits]} == {-1}
        return
    late = [one for one in [*pulls, *commits] if one.time - START > 10_000]
    assert {one.broker_offset for one in late if one.topic != "Orders"} == {-1}, "retries are the broker's own"
    log = run.cluster.brokers["broker-a"].logs
    for event in late:
        if event.topic == "Orders":
            queue = MessageQueue("Orders", "broker-a", event.queue_id)
            at = event.last_time if isinstance(event, PullMessage) else event.time
            assert event.broker_offset in {log[queue].max_offset((at + ms) * 1_000) for ms in (0, 1)}


def test_a_frozen_client_is_answered_for_by_its_broker_after_10_s(run):
    silent = [one for one in run.of(ConsumerRunningInfo) if one.error is not None]
    assert {(one.client_id, one.error.code) for one in silent} == {("127.0.0.1@c-3", 207)}
    assert all(10_000 <= one.time - one.asked <= 10_010 for one in silent)
    assert len(silent) == 1  # asked at 42 s; not at 52 s, for that answer came then; at 62 s, and that one it answered


def test_a_broker_that_is_down_is_an_error_and_never_an_empty_answer(run):
    down = [one for one in run.events if 80_100 < one.time - START < 92_000 and one.source_id.startswith("poll")]
    down = [one for one in down if type(one) is not Tick]
    assert {type(one) for one in down} == {BrokerStatus, ConsumerConnection, ConsumeStats}  # and no topic is known
    assert {one.error.code for one in down} == {-1}


def test_a_sum_of_pulls_covers_a_second_and_contains_the_offsets(run):
    sums = run.of(PullMessage)
    assert all(one.last_time - one.first_time <= 1000 for one in sums)
    assert all(one.first_offset <= one.last_offset for one in sums)
    assert all(one.count >= 1 for one in sums)
    assert {one.code for one in sums} >= {None}
    assert any(one.commit_offset > 0 for one in sums)


def test_a_sum_is_sent_before_the_next_tick_and_its_queues_next_event(run):
    open_since = {}
    for event in run.events:
        if not event.source_id.startswith("hook"):
            continue
        if isinstance(event, PullMessage):
            open_since[event.queue_id] = event.last_time
        if isinstance(event, UpdateConsumerOffset) and event.topic == "Orders":
            assert open_since.get(event.queue_id, 0) <= event.time
    ticks = [one.time for one in run.of(Tick) if one.source_id.startswith("hook")]
    for event in run.of(PullMessage):
        assert not any(event.first_time < tick < event.time for tick in ticks)


def test_a_leaving_client_unlocks_commits_and_unregisters_in_this_order(run):
    hook = [one for one in run.events if one.source_id.startswith("hook") and 120_000 <= one.time - START < 120_100]
    [unregister] = [one for one in hook if isinstance(one, UnregisterClient)]
    assert unregister.client_id == "127.0.0.1@c-1"
    mine = [type(one) for one in hook if getattr(one, "channel", "") == unregister.channel]
    order = [
        kind for kind, _ in itertools.groupby(mine) if kind in (UnlockBatchMq, UpdateConsumerOffset, UnregisterClient)
    ]
    assert order == [UnlockBatchMq, UpdateConsumerOffset, UnregisterClient]


def test_locks_are_requested_one_by_one_and_then_together_every_20_s(run):
    asked = [one for one in run.of(LockBatchMq) if one.client_id == "127.0.0.1@c-2" and one.time < START + 80_000]
    assert {len(one.requested) for one in asked if one.time < START + 3_900} <= {1, 2, 3, 4}
    renewals = [one for one in asked if len(one.requested) == len(one.granted) == 3]
    assert {round((b.time - a.time) / 1000) for a, b in itertools.pairwise(renewals)} == {20}


def _hooked(run):
    return [one for one in run.events if one.source_id.startswith("hook")]


def _gaps(events):
    last, gaps = {}, {}
    for event in events:
        key = key_of(event)
        before = last.get(key, 0)
        if event.seq != before + 1:
            gaps[key] = event.seq - before - 1
        last[key] = event.seq
    return gaps


def test_a_request_for_the_member_list_has_its_time(run):
    assert all(one.asked == one.time for one in run.of(GetConsumerListByGroup))


def test_what_a_hook_could_not_write_is_a_gap_reported_with_the_next_tick():
    run = simulate(small({"at": 60, "do": "hook-full", "broker": "broker-a", "lasts": 20}, minutes=2))
    hooked = _hooked(run)
    assert not [one for one in hooked if 60_000 <= one.time - START < 80_000]
    [lost] = run.of(TelemetryLost)
    assert lost.reason == "disk full"
    assert START + 60_000 <= lost.from_time < lost.to_time < START + 80_000 <= lost.time < START + 81_000
    assert type(hooked[hooked.index(lost) + 1]) is Tick
    gaps = _gaps(hooked)
    assert gaps[""] == 22, "a tick each second, and two questions of the collector"
    assert sum(gaps.values()) == lost.count
    [fault] = [one for one in run.cluster.world.truth.records if isinstance(one, Fault)]
    assert (fault.kind, fault.subject, fault.end - fault.begin) == ("hook-full", "broker-a", 20_000)


def test_a_hook_that_boots_onto_a_full_disk_begins_with_a_gap():
    run = simulate(
        small(
            {"at": 30, "do": "hook-full", "broker": "broker-a", "lasts": 40},
            {"at": 40, "do": "stop-broker", "broker": "broker-a", "lasts": 10},
            minutes=2,
        )
    )
    [lost] = run.of(TelemetryLost)
    assert lost.from_time >= START + 50_000
    second = [one for one in _hooked(run) if one.source_id == lost.source_id]
    assert sum(_gaps(second).values()) == lost.count
    assert not [one for one in run.of(BrokerStatus) if one.source_id == lost.source_id]


def test_a_collector_that_was_away_returns_as_a_new_incarnation():
    run = simulate(small({"at": 64.5, "do": "collector-away", "lasts": 30}, minutes=2))
    polled = [one for one in run.events if one.source_id.startswith("poll")]
    assert not [one for one in polled if 64_500 <= one.time - START < 94_500]
    first = [one for one in polled if one.time < START + 70_000]
    second = [one for one in polled if one.time > START + 70_000]
    assert {one.source_id for one in second} == {f"poll-1@{START + 94_500}"} != {one.source_id for one in first}
    assert (_gaps(first), _gaps(second)) == ({}, {})
    kinds = [type(one) for one in second[:4]]
    assert kinds == [BrokerStatus, TopicRoute, ConsumerConnection, ConsumeStats]
    assert run.incidents() == set()


def test_a_collector_that_ends_during_answers_never_reports_them():
    run = simulate(
        small(
            {"at": 40, "do": "freeze", "who": "c-3", "lasts": 5},
            {"at": 44, "do": "collector-away", "lasts": 10},
            minutes=2,
        )
    )
    [asked, *_] = [one for one in run.of(ConsumerRunningInfo) if one.time > START + 44_000]
    assert asked.asked >= START + 54_000
