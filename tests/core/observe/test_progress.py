"""Quantities as a series: what one answer, or a hook, becomes; by short logs of one group."""

import msgspec
import pytest

from rebalance_model.entities import INT64_MAX, MessageQueue
from rebalance_model.observe.effects import QueueProgress
from rebalance_model.observe.events import (
    AckMessage,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeTimeSpan,
    Event,
    LockBatchMq,
    OffsetInfo,
    PopMessage,
    PopProcessQueueInfo,
    ProcessQueueInfo,
    PullMessage,
    RpcError,
    TimeSpanInfo,
    TopicOffset,
    TopicStats,
    UnregisterClient,
    UpdateConsumerOffset,
)
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.progress import ProgressLog, ProgressState, observe
from rebalance_model.observe.state import popped_queues

START = 1_800_000_000_000
CLIENT_OFF = -7_200_000
"""A client's clock is hours off the collector's."""


def lost(key, error, _part):
    """Let a failure that is not contained end the test."""
    raise AssertionError(key) from error


def mq(queue_id: int, broker: str = "b") -> MessageQueue:
    return MessageQueue("T", broker, queue_id)


class Log:
    """Folds events of one group; times are seconds from `START`."""

    def __init__(self) -> None:
        self.state = ProgressState()
        self.seq = 0

    def take(self, kind: type[Event], at: float, *, hook: bool = False, **fields: object) -> list[QueueProgress]:
        self.seq += 1
        self.event = kind(
            time=START + round(1000 * at), cluster="c", group="g", broker="b", seq=self.seq,
            source="hook" if hook else "poll", **({"source_id": "hook-b@1" if hook else "poll-1@1"} | fields),
        )  # fmt: skip
        return observe(self.state, self.event, Policy())

    def stats(self, at: float, *rows: tuple[int, int, int], last: float = 0, pull: int = -1) -> QueueProgress:
        queues = tuple(
            OffsetInfo(
                mq=mq(q), broker_offset=b, consumer_offset=c, pull_offset=pull, last_time=START + int(1000 * last)
            )
            for q, b, c in rows
        )
        [row] = self.take(ConsumeStats, at, asked=START + int(1000 * at) - 50, queues=queues)
        return row

    def runs(self, at: float, *rows: tuple[MessageQueue, float, int], **fields: object) -> list[QueueProgress]:
        """A client's answer: queue, when it pulled last, what it has cached."""
        queues = tuple(
            ProcessQueueInfo(
                mq=queue, commit_offset=1, cached_count=cached, locked=True, dropped=False,
                lock_time=START + CLIENT_OFF, consume_time=START + CLIENT_OFF,
                pull_time=START + CLIENT_OFF + int(1000 * pulled),
            )
            for queue, pulled, cached in rows
        )  # fmt: skip
        return self.take(ConsumerRunningInfo, at, client_id="a", orderly=True, queues=queues, **fields)

    def acks(self, at: float, first: int, last: int, *, topic: str = "T", start: int = 1, **fields: int):
        """A client pops messages, and acknowledges them; the broker started at ``start``."""
        time = START + int(1000 * at)
        times = dict.fromkeys(("first_time", "last_time", "pop_time_min", "pop_time_max"), time)
        self.take(
            PopMessage,
            at,
            hook=True,
            channel="x",
            topic=topic,
            queue_id=-1,
            count=1,
            invisible_ms=60_000,
            source_id=f"hook-b@{start}",
            first_time=time,
            last_time=time,
        )
        return self.take(
            AckMessage, at, hook=True, channel="x", topic=topic, queue_id=0, ranges=((first, last),),
            invisible_ms=60_000, source_id=f"hook-b@{start}", **times,
        )  # fmt: skip

    def commits(self, at: float, queue_id: int, offset: int, newest: int = -1) -> list[QueueProgress]:
        return self.take(
            UpdateConsumerOffset, at, hook=True, channel="x", topic="T", queue_id=queue_id, offset=offset,
            broker_offset=newest,
        )  # fmt: skip

    def pulls(self, at: float, queue_id: int, offset: int, **fields: int) -> list[QueueProgress]:
        time = START + int(1000 * at)
        return self.take(
            PullMessage, at, hook=True, channel="x", topic="T", queue_id=queue_id, first_time=time, last_time=time,
            first_offset=offset, last_offset=offset, count=1, **fields,
        )  # fmt: skip


def test_what_a_client_has_popped_and_not_acknowledged_is_a_row():
    """Its clock is hours off, and it has no process queue: its newest pop is its present time."""
    log, popped = Log(), START + CLIENT_OFF + 9_000
    pops = tuple(
        PopProcessQueueInfo(topic=topic, broker="b", queue_id=queue_id, wait_ack_count=count, pop_time=popped - ago)
        for topic, queue_id, count, ago in (("T", -1, 22, 0), ("U", 3, 0, 1_500))
    )
    gone = PopProcessQueueInfo(topic="V", broker="b", queue_id=-1, dropped=True, wait_ack_count=7)
    for at in (10, 20):
        [row] = log.runs(at, pop_queues=(*pops, gone))
        assert (row.client_id, row.topic, row.queue_id, row.in_flight) == ("a", ("T", "U"), (-1, 3), (22, 0))
        assert row.pull_at == (START + 1_000 * at, START + 1_000 * at - 1_500)


def test_in_flight_begins_again_with_its_broker():
    log = Log()
    log.acks(0, 0, 0)
    [row] = log.acks(10, 2, 2)
    assert (row.in_flight, row.in_flight_since) == ((1,), (START + 10_000,))
    [row] = log.acks(20, 4, 4, start=2)
    assert row.in_flight == (0,)


def test_a_group_that_pops_one_topic_may_pull_another():
    log = Log()
    log.acks(0, 0, 9, topic="U")
    row = log.stats(10, (0, 100, 70), pull=80)
    assert (row.lag, row.in_flight, row.ready) == ((30,), (10,), (20,))
    assert (row.in_flight_since, row.lag_is_at_least) == (None, ()), "as of a group that pops nothing"


def test_queues_beyond_the_bound_of_popped_ones_have_no_row(monkeypatch):
    monkeypatch.setattr(popped_queues, "QUEUES_MAX", 1)
    log = Log()
    assert [row.topic for row in log.acks(0, 0, 9)] == [("T",)]
    assert log.acks(10, 0, 9, topic="U") == []


def test_an_answer_of_offsets_is_one_row_with_lag_and_its_parts():
    row = Log().stats(10, (0, 100, 70), (1, 5, 5), last=4, pull=90)
    assert (row.time, row.asked_at, row.source, row.kind) == (START + 10_000, START + 9_950, "POLL", "CONSUME_STATS")
    assert (row.lag, row.in_flight, row.ready) == ((30, 0), (20, 85), (10, None))  # that pull is beyond its end
    assert (row.waiting_ms, row.waiting_is_at_most) == ((6_000, 0), (True, False))


def test_the_time_in_an_answer_counts_if_it_is_given():
    [row] = Log().take(
        ConsumeStats, 10, asked=START + 8_000, answered=START + 9_000,
        queues=(OffsetInfo(mq=mq(0), broker_offset=1, consumer_offset=1),),
    )  # fmt: skip
    assert row.time == START + 9_000


def test_a_queue_without_a_commit_has_no_lag_until_one_is_seen():
    log = Log()
    first = log.stats(0, (0, 100, 0))
    assert (first.commit_offset, first.lag, first.waiting_ms) == ((None,), (None,), (None,))
    assert log.stats(10, (0, 100, 40)).lag == (60,)
    assert log.stats(20, (0, 100, 0)).lag == (100,), "a commit was reset to 0"


def test_a_commit_that_a_hook_saw_makes_0_a_commit():
    log = Log()
    log.commits(0, 0, 0)
    assert log.stats(1, (0, 100, 0)).lag == (100,)


def test_the_interval_is_the_spacing_of_the_last_two_answers():
    log = Log()
    assert [log.stats(at, (0, 1, 1)).interval_ms for at in (0, 30, 60, 65)] == [10_000, 30_000, 30_000, 5_000]


def test_an_error_and_a_second_copy_make_no_row():
    log = Log()
    assert log.take(ConsumeStats, 0, error=RpcError(code=-1)) == []
    log.stats(1, (0, 1, 1))
    assert observe(log.state, log.event, Policy()) == []


def test_the_broker_reports_how_long_the_next_message_has_waited():
    log = Log()
    spans = (TimeSpanInfo(mq=mq(0), delay_time=4_200), TimeSpanInfo(mq=mq(1), delay_time=-3))
    [row] = log.take(ConsumeTimeSpan, 5, topic="T", queues=spans)
    assert (row.waiting_ms, row.waiting_is_at_most, row.lag) == ((4_200, 0), (), ())


def test_the_offsets_of_a_dead_letter_topic_are_a_row():
    log = Log()
    stored = TopicOffset(mq=MessageQueue("%DLQ%g", "b", 0), min_offset=4, max_offset=9, last_time=START)
    [row] = log.take(TopicStats, 5, topic="%DLQ%g", queues=(stored,))
    assert (row.kind, row.topic, row.queue_id) == ("TOPIC_STATS", ("%DLQ%g",), (0,))
    assert (row.min_offset, row.broker_offset, row.stored_at, row.lag) == ((4,), (9,), (START,), ())


def test_dead_letters_are_fresh_for_two_minutes_at_least():
    """A collector that starts asks in its first round, and again when it is the group's turn."""
    log = Log()
    rows = [log.take(TopicStats, at, topic="%DLQ%g", queues=())[0] for at in (0, 10, 70, 370, 670)]
    assert [row.interval_ms for row in rows] == [60_000, 60_000, 60_000, 60_000, 300_000]


def test_a_broker_without_a_dead_letter_topic_reports_no_messages():
    """None were ever added: that is known, unlike after an error."""
    log = Log()
    [row] = log.take(TopicStats, 5, topic="%DLQ%g", queues=())
    assert (row.broker, row.topic, row.queue_id) == ("b", ("%DLQ%g",), (0,))
    assert (row.min_offset, row.broker_offset, row.stored_at) == ((0,), (0,), (None,))
    assert log.take(TopicStats, 6, topic="%DLQ%g", error=RpcError(code=-1)) == []
    assert log.take(TopicStats, 7, topic="Orders", queues=()) == []  # only rules use which messages are stored of it


def test_a_client_adds_only_queues_with_changed_values():
    log = Log()
    [first] = log.runs(0, (mq(0), 0, 7), (mq(1), -5, 0))
    assert (first.client_id, first.queue_id, first.cached_count) == ("a", (0, 1), (7, 0))
    [second] = log.runs(10, (mq(0), 9, 7), (mq(1), -5, 0))
    assert second.queue_id == (0,)
    assert log.runs(20, (mq(0), 9, 7), (mq(1), -5, 0)) == []
    [again] = log.runs(60, (mq(0), 9, 7), (mq(1), -5, 0))
    assert (again.queue_id, again.interval_ms) == ((0, 1), 60_000)


def test_a_clients_stamps_are_brought_to_the_time_of_the_answer():
    """Its clock is two hours behind, and its newest stamp is at the latest that of the answer."""
    log = Log()
    [first] = log.runs(100, (mq(0), 98, 0), (mq(1), 90, 0))
    assert first.pull_at == (START + 100_000, START + 92_000)
    [later] = log.runs(160, (mq(0), 98, 0), (mq(1), 90, 0))
    assert later.pull_at == first.pull_at, "the stamps stand: they are not younger than they were"


def test_a_clients_answer_is_a_row_for_each_broker_of_its_queues():
    rows = Log().runs(0, (mq(0), 0, 1), (mq(0, "other"), 0, 2))
    assert [(row.broker, row.cached_count) for row in rows] == [("b", (1,)), ("other", (2,))]


def test_a_hook_makes_one_row_in_ten_seconds_of_what_it_saw_since():
    log = Log()
    [first] = log.commits(0, 0, 5)
    assert log.commits(3, 1, 6) == log.pulls(9, 1, 8) == []
    [second] = log.commits(10, 1, 7)
    assert (first.queue_id, first.source, first.kind) == ((0,), "HOOK", "HOOK")
    assert (second.queue_id, second.commit_offset, second.pull_offset) == ((1,), (7,), (8,))
    [repeated] = log.commits(61, 1, 9)
    assert set(repeated.queue_id) == {0, 1}


def test_a_hooks_lag_is_a_lower_bound_unless_it_saw_the_newest_offset():
    log = Log()
    log.pulls(0, 0, 12)
    [row] = log.commits(10, 0, 5)
    assert (row.lag, row.lag_is_at_least) == ((7,), (True,))
    [row] = log.commits(20, 0, 5, newest=30)
    assert (row.lag, row.lag_is_at_least) == ((25,), (False,))
    [row] = log.commits(30, 0, 6)
    assert (row.lag, row.lag_is_at_least) == ((24,), (True,)), "the newest offset is that of ten seconds ago"


def test_a_pull_that_the_broker_refuses_commits_nothing():
    log = Log()
    log.commits(0, 0, 5)
    [refused] = log.pulls(10, 0, 7, commit_offset=7, code=24)  # SUBSCRIPTION_NOT_EXIST
    assert (refused.commit_offset, refused.commit_at, refused.lag) == ((5,), (START,), (2,))
    [served] = log.pulls(20, 0, 7, commit_offset=7)
    assert (served.commit_offset, served.lag) == ((7,), (0,))


@pytest.mark.parametrize("code", [None, 0, 19, 20, 21])
def test_a_pull_commits_also_where_it_gets_no_message(code):
    """After its checks, DefaultPullMessageResultHandler stores the commit before it looks at what was found."""
    log = Log()
    log.commits(0, 0, 5)
    [row] = log.pulls(10, 0, 7, commit_offset=7, code=code)
    assert (row.commit_offset, row.lag) == ((7,), (0,))


def test_a_granted_lock_is_dated_by_the_hook():
    log = Log()
    granted = (mq(0),)
    [row] = log.take(LockBatchMq, 4, hook=True, client_id="a", channel="x", requested=(mq(0), mq(1)), granted=granted)
    assert (row.queue_id, row.lock_at) == ((0,), (START + 4_000,))


def test_a_granted_lock_is_written_at_once_but_of_many_calls_not_each():
    log = Log()

    def locks(at: float, *ids: int) -> list[tuple[int, ...]]:
        of = {"requested": tuple(map(mq, ids)), "granted": tuple(map(mq, ids))}
        return [row.queue_id for row in log.take(LockBatchMq, at, hook=True, client_id="a", channel="x", **of)]

    log.pulls(1, 1, 5)
    assert locks(4, 0) == [(0,)], "its age would else lack the renewal for 10 s"
    assert locks(4.05, 1) == []
    assert log.pulls(5, 2, 5) == []
    assert locks(24, 0) == [(1, 2), (0,)], "what waited for 10 s is a row of its own"
    assert locks(24.05, 1, 2) == [(1, 2)], "it renews all its locks"
    assert locks(24.07, 1, 2) == [], "and once more"


def test_the_rows_do_not_depend_on_where_the_log_is_cut():
    def rows(*, cut: bool) -> bytes:
        log, store, effects = Log(), GroupsInMemory(), []
        unwritten = {}
        kept = ProgressLog(store, Policy(), unwritten, lost)
        for at in range(0, 200, 5):
            log.stats(at, (0, at, at // 2), last=at - 1)
            effects += kept.observe(log.event, at * 1_000)
            log.runs(at + 1, (mq(0), at, 3), (mq(1), 0, 3))
            effects += kept.observe(log.event, at * 1_000)
            log.commits(at + 2, at % 3, at)
            effects += kept.observe(log.event, at * 1_000)
            effects += kept.tick(at * 1_000 + 500)
            if cut:
                kept.flush()
                kept = ProgressLog(store, Policy(), unwritten, lost)
        return msgspec.json.encode(effects)

    assert rows(cut=True) == rows(cut=False)


def test_what_is_kept_of_a_forgotten_group_is_dropped():
    store = GroupsInMemory()
    unwritten = {}
    kept, log = ProgressLog(store, Policy(), unwritten, lost), Log()
    log.commits(0, 0, 1)
    kept.observe(log.event, START)
    log.commits(1, 0, 2)
    kept.observe(log.event, START + 1_000)
    kept.flush()
    assert store
    assert unwritten
    kept.forget("c", "g")
    assert not store
    assert not unwritten
    assert kept.tick(INT64_MAX) == []


def test_a_hooks_last_report_before_a_silence_is_written_when_it_is_back():
    """Nobody else ticks meanwhile, as where the only broker is down and nothing polls."""
    log = Log()
    assert [row.commit_offset for row in log.commits(0, 0, 10)] == [(10,)]
    assert log.commits(4, 0, 14) == []
    commits = [(row.time, row.commit_offset) for row in log.commits(60, 0, 20)]
    assert commits == [(START + 4_000, (14,)), (START + 60_000, (20,))]


def test_the_last_values_of_a_hook_are_written_without_a_further_event():
    kept, log = ProgressLog(GroupsInMemory(), Policy(), {}, lost), Log()
    for at in (0, 3, 4):
        log.commits(at, 0, 10 + at)
        rows = kept.observe(log.event, START + at * 1_000)
        assert [row.commit_offset for row in rows] == ([(10,)] if at == 0 else [])
    assert kept.tick(START + 12_999) == []
    [row] = kept.tick(START + 13_000)
    assert (row.time, row.commit_offset, row.source) == (START + 4_000, (14,), "HOOK")
    assert kept.tick(START + 60_000) == []


def test_what_a_hook_reports_in_its_rows_millisecond_is_in_the_next_row():
    """A hook sums a second's pulls up: those of all queues have one time."""
    kept, log = ProgressLog(GroupsInMemory(), Policy(), {}, lost), Log()
    log.commits(0, 0, 10)
    assert kept.observe(log.event, START)
    log.commits(0, 1, 20)
    assert kept.observe(log.event, START) == []
    [row] = kept.tick(START + 10_000)
    assert (row.queue_id, row.commit_offset, row.time) == ((1,), (20,), START + 1)


def test_an_unanswered_request_makes_no_progress_row():
    log, error = Log(), RpcError(code=-1)
    assert log.take(ConsumeStats, 0, error=error) == []
    assert log.take(ConsumerRunningInfo, 1, error=error, client_id="a") == []
    assert log.take(ConsumeTimeSpan, 2, error=error, topic="T") == []


def test_an_event_without_quantities_makes_no_row():
    assert Log().take(UnregisterClient, 0, hook=True, channel="x", client_id="a") == []


def test_a_queue_that_its_client_has_dropped_is_left_out():
    held = {"commit_offset": 5, "locked": True, "lock_time": START, "pull_time": START, "consume_time": START}
    queues = tuple(ProcessQueueInfo(mq=mq(q), dropped=q == 0, **held) for q in range(2))
    [row] = Log().take(ConsumerRunningInfo, 0, client_id="a", orderly=True, queues=queues)
    assert row.queue_id == (1,)


def test_a_client_that_left_an_hour_ago_is_forgotten_when_one_comes():
    log = Log()
    log.runs(0, (mq(0), 0, 1))
    log.take(ConsumerRunningInfo, 3_599, client_id="b", orderly=True, queues=())
    assert set(log.state.clients) == {"a", "b"}
    log.take(ConsumerRunningInfo, 3_601, client_id="c", orderly=True, queues=())
    assert set(log.state.clients) == {name.split()[-1] for name in log.state.spacings} == {"b", "c"}
