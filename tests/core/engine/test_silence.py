"""Changes when a source falls silent and returns, and what stays as it was."""

from collections.abc import Iterable

import pytest

from rebalance_model.observe.changes import ClusterChanged, SourceBack
from rebalance_model.observe.effects import AnyEffect, IncidentTransition, QueueProgress
from rebalance_model.observe.events import BrokerStatus, ConsumerRunningInfo, RpcError, Tick, UpdateConsumerOffset
from tests.support.folding import Fold, folded
from tests.support.trace import START, Trace, holding

TWO = {"a": holding(0, 1), "b": holding(2, 3)}


def tick(name: str, second: int, *, end: bool = False, start: int = 1) -> Tick:
    """A tick of a collector, or of the hook of a broker of that name."""
    broker = "" if name.startswith("poll") else name
    return Tick(
        time=START + 1_000 * second, cluster="c", broker=broker, source="hook" if broker else "poll",
        source_id=f"{name}@{start}", seq=second + 1, end=end,
    )  # fmt: skip


def gaps(log: Iterable[Tick]) -> list[str]:
    rows: list[AnyEffect] = folded(log)
    return [f"{row.transition} {row.sub_cause}" for row in rows if isinstance(row, IncidentTransition)]


def test_a_collector_with_a_standby_may_be_silent():
    both = [tick(name, n) for n in range(60) for name in ("poll-1", "poll-2")]
    hook = [tick("broker-a", n) for n in range(180)]
    rest = [tick("poll-2", n) for n in range(60, 180)]
    assert gaps(sorted([*both, *rest, *hook], key=lambda one: one.time)) == []
    alone = [one for one in both if one.source_id == "poll-1@1"]
    assert gaps(sorted([*alone, *hook], key=lambda one: one.time)) == ["OPENED POLL_SILENT"]


def silent_after_its_end(back: int) -> list[str]:
    """The silent sources at 28 s, where a hook ends at 20 s and reports again at ``back``."""
    hook = [tick("broker-a", n, end=n == 20, start=1 if n <= 20 else 2) for n in [*range(21), *range(back, 29)]]
    fold = Fold()
    for event in sorted([*hook, *(tick("poll-1", n) for n in range(29))], key=lambda one: one.time):
        fold.push(event)
    return list(fold.shard.timeline.state.clusters["c"].silent)


def test_a_hook_that_ends_and_is_back_within_5_s_was_not_silent():
    assert silent_after_its_end(back=23) == []
    assert silent_after_its_end(back=29) == ["c/broker-a"]


def test_the_last_answer_of_a_killed_collector_does_not_bring_it_back():
    """A round began after its last tick: the collector is silent from that tick on."""
    ticks = [tick("poll-1", n) for n in range(21)] + [tick("poll-2", n) for n in range(60)]
    common = {"cluster": "c", "broker": "broker-a", "source": "poll", "source_id": "poll-1@1", "boot_time": 1}
    answer = BrokerStatus(time=START + 20_300, asked=START + 20_299, answered=START + 20_300, seq=22, **common)
    fold = Fold()
    for event in sorted([*ticks, answer], key=lambda one: one.time):
        fold.push(event)
    assert list(fold.shard.timeline.state.clusters["c"].silent) == ["c/poll-1"]


@pytest.mark.parametrize("ends", [145, 115], ids=["goes on", "ends in doubt"])
def test_what_comes_right_after_a_pause_of_all_sources_is_in_the_rows(ends):
    """As of a broker that was frozen for 90 s, by its hook alone: its first tick is doubted for half a minute."""
    common = {"cluster": "c", "group": "g", "broker": "broker-a", "source": "hook", "source_id": "broker-a@1"}
    where = {"channel": "1.1.1.1:1", "topic": "T", "queue_id": 0}
    commits = [
        UpdateConsumerOffset(time=START + 1_000 * at + 500, offset=at, seq=seq, **where, **common)
        for seq, at in enumerate((5, 19, 110, 112), 1)
    ]
    fold, rows = Fold(), []
    for event in sorted(
        [*(tick("broker-a", n) for n in (*range(21), *range(110, ends))), *commits], key=lambda one: one.time
    ):
        rows += fold.push(event)
    rows += fold.shard.finish()
    progress = [row for row in rows if isinstance(row, QueueProgress)]
    assert [row.commit_offset for row in progress] == [(5,), (19,), (110,), (112,)]


def test_a_source_that_was_not_silent_is_not_back():
    trace = Trace().poll(0, TWO)
    assert trace.group.on_source(SourceBack("c/poll-1"), trace.moment()) == []


def test_an_incident_of_a_broker_that_the_group_is_not_on_concerns_it_not():
    trace = Trace().poll(0, TWO)
    subjects = {"broker-z", "poll-2"}
    assert trace.group.on_source(ClusterChanged(subjects), trace.moment()) == []


def test_an_error_in_the_place_of_an_answer_makes_no_member():
    trace = Trace().poll(0, TWO)
    event = ConsumerRunningInfo(client_id="x", error=RpcError(code=207), **trace._poll(trace.now))
    assert trace.group.handle(event, trace.moment(event)) == []
    assert set(trace.state.clients) == {"a", "b"}
