"""Sources that join: each is waited for, and all of them together no longer than one."""

import msgspec
import pytest
from msgspec.structs import replace

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.engine import shard
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.events import AnyEvent, BrokerStatus, ProxyStatus, Tick, UpdateConsumerOffset
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.losses import LOST_MAX
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import Sequence, source

START = 1_795_255_680_000
POLICY = Policy()
LIMIT = 2 * POLICY.source_silent_after
"""For how long a source may be behind of which no interval is known."""


def tick(name: str, time: int, seq: int) -> Tick:
    return Tick(time=time, cluster="lab", broker=name, source="hook", source_id=f"hook-{name}@1", seq=seq)


def commit(time: int, seq: int) -> AnyEvent:
    return UpdateConsumerOffset(
        time=time, cluster="lab", broker="a", source="hook", source_id="hook-a@1", seq=seq, group="g",
        channel="10.0.0.1:5", topic="Orders", queue_id=0, offset=seq,
    )  # fmt: skip


class Log:
    """A log to which broker a's hook writes each second; it is cut into batches of ten seconds."""

    def __init__(self) -> None:
        self.groups = GroupsInMemory()
        self.shard = Shard(None, self.groups, POLICY)
        self.lags: list[int] = []
        """How far the timeline was behind the hook after each second."""

    def push(self, event: AnyEvent, second: int) -> None:
        self.shard.push(event, START + second * 1_000)

    def second(self, second: int) -> None:
        now = START + second * 1_000
        self.push(commit(now, second + 1), second)
        self.push(tick("a", now, second + 1), second)
        self.lags.append(now - self.shard.timeline.state.now)
        if second % 10 == 9:
            self.shard = Shard(self.shard.flush(), self.groups, POLICY)


@pytest.mark.parametrize("goes_back", [False, True], ids=["at the begin", "back to the begin"])
def test_new_names_without_end_hold_back_no_one_for_long(goes_back):
    log = Log()
    for second in range(300):
        log.second(second)
        if second >= 60:
            name = f"evil-{second}"
            if goes_back:
                log.push(tick(name, START + second * 1_000, 1), second)
            log.push(tick(name, START, 2), second)
    assert max(log.lags[60:]) <= LIMIT + 5_000
    assert sorted(log.lags[120:])[len(log.lags[120:]) * 9 // 10] <= 3_000


def test_one_that_joins_far_behind_is_waited_for_as_long_as_ever():
    log = Log()
    for second in range(200):
        log.second(second)
        if second == 60:
            log.push(tick("b", START, 1), second)
    held = [second for second in range(60, 200) if log.lags[second] >= 5_000]
    assert held[0] == 65
    assert LIMIT - 2_000 <= max(log.lags[60:]) <= LIMIT + 2_000
    assert log.lags[100] <= 1_000


def test_ones_that_join_far_behind_at_once_are_all_waited_for():
    log = Log()
    for second in range(200):
        log.second(second)
        if second == 60:
            for name in "bcdefgh":
                log.push(tick(name, START, 1), second)
    assert LIMIT - 2_000 <= max(log.lags[60:]) <= LIMIT + 2_000


def test_another_one_is_waited_for_when_the_budget_has_recovered():
    log = Log()
    for second in range(700):
        log.second(second)
        if second in {60, 600}:
            log.push(tick(f"late-{second}", START, 1), second)
    assert max(log.lags[600:]) >= LIMIT - 2_000


def test_ones_that_join_and_keep_up_cost_nothing_of_the_budget():
    log = Log()
    for second in range(200):
        log.second(second)
        for number in range(min(second, 50)):
            log.push(tick(f"honest-{number}", START + second * 1_000 - 3_000, second + 1), second)
        if second == 150:
            log.push(tick("late", START, 1), second)
    assert LIMIT - 2_000 <= max(log.lags[150:]) <= LIMIT + 5_000
    assert max(log.lags[40:150]) <= 4_000


PLACES = 20


@pytest.fixture
def few_places(monkeypatch):
    """Sources get the places of those that have been silent for a minute."""
    monkeypatch.setattr(shard, "SOURCES_MAX", PLACES)
    monkeypatch.setattr(shard, "NEW_UNTIL", 60_000)


def invented(kind: str, number: int, second: int) -> AnyEvent:
    """Return the only event of an invented source."""
    now, name = START + second * 1_000, f"evil-{number}"
    match kind:
        case "cluster":
            return replace(tick(name, now, 1), cluster=name)
        case "collector":
            return Tick(time=now, cluster="lab", source="poll", source_id=f"{name}@1", seq=1)
        case "commit":
            return replace(commit(now, 1), source_id=f"{name}@1", broker=name)
        case "status":
            return BrokerStatus(
                time=now, cluster="lab", broker=name, source="poll", source_id=f"{name}@1", seq=1, boot_time=1,
                asked=now, answered=now,
            )  # fmt: skip
        case "proxy":
            return ProxyStatus(
                time=now, cluster="lab", broker="", source="poll", source_id=f"{name}@1", seq=1, proxy=name
            )
        case _:
            return tick(name, now, 1)


@pytest.mark.parametrize("kind", ["hook", "cluster", "collector", "commit", "status", "proxy"])
def test_invented_sources_do_not_grow_the_shard(few_places, kind):
    """The state after ten times as many of them is not larger, and the honest source loses nothing."""
    log, sizes, number = Log(), [], 0
    for second in range(800):
        log.second(second)
        if second >= 20:
            for _ in range(5):
                log.push(invented(kind, number, second), second)
                number += 1
        if second in {399, 799}:
            saved = log.shard.flush()
            sizes.append(len(saved.blob) + sum(map(len, saved.buffer)) + sum(map(len, log.groups.values())))
            log.shard = Shard(saved, log.groups, POLICY)
    assert sizes[1] <= 1.2 * sizes[0]
    assert max(log.lags[20:]) <= LIMIT + 5_000
    assert log.shard.timeline.group("lab", "g").sequences["hook/hook-a"].seq >= 760


def test_events_without_a_place_are_kept_with_the_reason(few_places):
    log = Log()
    for second in range(60):
        log.second(second)
    for number in range(PLACES + 200):
        log.push(invented("hook", number, 60), 60)
    refused = log.shard.take_lost()
    assert len(refused) == LOST_MAX
    assert {(one.part, one.error) for one in refused} == {("SOURCE", shard.REFUSED)}
    assert [msgspec.json.decode(one.value)["source_id"] for one in refused[:2]] == ["hook-evil-19@1", "hook-evil-20@1"]


def test_a_source_joins_when_invented_ones_have_been_silent_for_long(few_places):
    log, joined = Log(), 0
    for second in range(200):
        log.second(second)
        if second == 20:
            for number in range(3 * PLACES):
                log.push(invented("hook", number, second), second)
        if second >= 40:
            log.push(tick("b", START + second * 1_000, second), second)
            known = "lab/hook-b" in log.shard._state.waiting.sources
            joined = joined or (second if known else 0)
    assert 80 <= joined <= 90
    assert "lab/hook-b" in log.shard._state.waiting.sources


def test_sources_that_report_or_were_known_for_long_keep_their_places(few_places):
    """One that has stopped is kept for a day: its broker may only be down."""
    log = Log()
    for second in range(400):
        log.second(second)
        if second < 100:
            log.push(tick("b", START + second * 1_000, second + 1), second)
        if second >= 20:
            log.push(invented("hook", second, second), second)
    assert {"lab/hook-a", "lab/hook-b"} <= log.shard._state.waiting.sources.keys()
    assert log.shard.timeline.state.clusters["lab"].silent.keys() >= {"lab/hook-b"}


def test_a_source_that_was_forgotten_is_followed_when_it_is_back(few_places):
    """Its group knows that it was silent, and that it is back."""
    log = Log()

    def report(second: int) -> None:
        now = START + second * 1_000
        log.push(replace(commit(now, second + 1), source_id="hook-b@1", broker="b", group="h"), second)
        log.push(tick("b", now, second + 1), second)

    for second in range(500):
        log.second(second)
        if second < 50 or second >= 400:
            report(second)
        elif second < 300:
            log.push(invented("hook", second, second), second)
        if second == 390:
            assert "lab/hook-b" not in log.shard._state.waiting.sources
    group = log.shard.timeline.group("lab", "h")
    assert not group.silent
    assert group.sequences["hook/hook-b"].seq >= 460


def test_a_source_is_forgotten_though_a_group_still_names_it(few_places):
    """Its broker is reported by a collector, too, and the group keeps what it knows of that broker."""
    log = Log()
    for second in range(300):
        log.second(second)
        now = START + second * 1_000
        common = {"cluster": "lab", "source": "poll", "source_id": "poll@1", "time": now}
        log.push(BrokerStatus(**common, broker="b", seq=2 * second, boot_time=1, asked=now, answered=now), second)
        log.push(Tick(**common, seq=2 * second + 1), second)
        if second < 40:
            log.push(replace(commit(now, second + 1), source_id="hook-b@1", broker="b"), second)
            log.push(tick("b", now, second + 1), second)
        else:
            log.push(invented("hook", second, second), second)
    assert "lab/hook-b" not in log.shard._state.waiting.sources
    assert log.shard.timeline.group("lab", "g").views["b"].hook_source == "lab/hook-b"
    assert log.shard.timeline.state.clusters["lab"].brokers["b"].hook == ""
    assert "lab/hook-b" in log.shard.timeline.group("lab", "g").silent
    for second in range(300, 380):
        log.second(second)
        log.push(replace(commit(START + second * 1_000, second), source_id="hook-b@1", broker="b"), second)
        log.push(tick("b", START + second * 1_000, second), second)
    assert not log.shard.timeline.group("lab", "g").silent, "it is back"


def test_what_waits_of_a_source_that_is_forgotten_is_not_folded(few_places):
    """It sends no ticks, and its clock is minutes ahead: another one gets its place before its event is due."""
    log = Log()
    for second in range(400):
        log.second(second)
        if second == 20:
            log.push(replace(commit(START + 300_000, 7), source_id="ahead@1", offset=10**6), second)
        if second >= 30:
            log.push(invented("hook", second, second), second)
        if second == 100:
            assert "lab/ahead" not in log.shard._state.waiting.sources
    group = log.shard.timeline.group("lab", "g")
    assert group.sequences["hook/hook-a"].seq >= 370
    assert group.queues[MessageQueue("Orders", "a", 0)].hook_view.commit_offset < 10**6


def test_of_too_many_sources_of_a_group_the_lowest_number_is_forgotten(monkeypatch):
    monkeypatch.setattr(source, "SEQUENCES_MAX", 2)
    sequences = {}
    for name, number in [("a", 5), ("b", 1), ("a", 6), ("c", 2)]:
        source.note_sequence(sequences, name, Sequence(1, number))
    assert {name: one.seq for name, one in sequences.items()} == {"a": 6, "c": 2}
