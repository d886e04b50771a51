"""Sources that join: each is waited for, and all of them together no longer than one."""

import pytest

from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.events import AnyEvent, Tick, UpdateConsumerOffset
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy

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
