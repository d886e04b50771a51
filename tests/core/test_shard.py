"""A shard's result does not depend on where its log is cut, on copies, nor on how late each source is in the log."""

import itertools
from collections.abc import Iterable, Iterator
from functools import cache

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import (
    AnyEvent,
    BrokerStatus,
    GetConsumerListByGroup,
    GroupEvent,
    HeartBeat,
    LockBatchMq,
    PullMessage,
    QueryConsumerOffset,
    Subscription,
    TelemetryLost,
    Tick,
    UnlockBatchMq,
    UnregisterClient,
    UpdateConsumerOffset,
)
from rebalance_model.observe.policy import Policy
from tests.support.folding import Fold
from tests.support.hook_trace import A, B, HookTrace
from tests.support.trace import GONE, SILENT, START, Held, Member, Trace, as_json, holding

POLICY = Policy()
FEWER = settings(max_examples=settings().max_examples // 20, deadline=None)
"""Each of these folds the whole log again, for a second."""


def a_log() -> list[AnyEvent]:
    """Two groups of one collector and two brokers' hooks, with everything that leads to rows, and ticks every second.

    All of the second group is 5.05 s later: its polls come just before the hooks tell of the first.

    a is stuck and then freezes, c is known to broker-b alone, and broker-b restarts.
    """
    stuck = Member((Held(0, consume_age=1, cached=10), Held(1)))
    trace = HookTrace()
    commit = {q: (100, 90 + q) for q in range(4)}
    trace.poll(0, {"a": holding(0, 1), "b": holding(2, 3)}, commit)
    for n in range(1, 16):
        if n == 12:
            trace.of(B).boots(113)
        add_hook_events(trace, 10 * n - 5, ("a", "b") if n < 9 else ("b",))
        offsets = {q: (100 + 10 * n, 90 if q == 0 else 90 + 10 * n) for q in range(4)}
        members = {"a": stuck, "b": holding(2, 3)} if n < 9 else {"a": SILENT, "b": holding(2, 3)}
        trace.poll(10 * n, members, offsets)
    started = BrokerStatus(boot_time=trace.boot[B], seq=1, **trace.of(B)._common(trace.boot[B]))
    trace.of(A).lists(159, "b").locks(159.5, "b", 0, 1)
    trace.poll(160, {"b": holding(2, 3)}, {0: (300, 95)})
    add_hook_events(trace, 165, ("b",))
    trace.poll(170, {"b": holding(0, 1, 2, 3)}, {0: (300, 200)})
    keyed = [
        msgspec.structs.replace(event, group=group, seq=event.seq, time=event.time + later)
        for event in trace.events
        for group, later in (("g", 0), ("h", 5_050))
    ]
    log = [*keyed, started, *ticks(trace)]
    return sorted(log, key=lambda event: (event.time, not isinstance(event, BrokerStatus | Tick)))


def add_hook_events(trace: HookTrace, at: float, members: tuple[str, ...]) -> None:
    """Calls of members to two brokers: a has 0 and 1 of broker-a, b 2 and 3; c has 0 of broker-b."""
    for broker in (A, B):
        trace.of(broker).heart_beat(at, *members, *("c" if broker == B else ()))
        for client in members:
            queues = (0, 1) if client == "a" else (2, 3)
            trace.locks(at + 0.1, client, *queues).asks(at + 0.2, client, queues[0]).pulls(at + 0.3, client, *queues)
            trace.commits(at + 0.4, client, queues[1], round(at))
    trace.of(B).locks(at + 1, "c", 0).unlocks(at + 2, "c", 0).lists(at + 3, *members, "c").leaves(at + 4, "c")


def ticks(trace: HookTrace) -> Iterator[Tick]:
    for n in range(700):
        yield Tick(time=START + 1000 * n, cluster="c", source="poll", source_id=trace.source_id, seq=n)
    for broker in (A, B):
        for n in range(320):
            yield Tick(seq=1000 + n, **trace.of(broker)._common(trace.clock(n)))


LOG = a_log()


def fold(log: list[AnyEvent], cuts: set[int]) -> bytes:
    fold, rows = Fold(POLICY), []
    for index, event in enumerate(log):
        if index in cuts:
            fold.cut()
        rows += fold.push(event)
    return as_json(rows + fold.shard.finish())


@cache
def whole() -> bytes:
    """Return what the whole log leads to; not at import, for which each process of pytest-xdist would pay."""
    return fold(LOG, set())


def fold_soundly(events: Iterable[AnyEvent]) -> None:
    Fold(POLICY).all(events)


NAMES, CHANNELS = st.sampled_from("abc"), st.sampled_from(["a:0", "b:0", "?a", "b:1"])
QUEUES = st.lists(st.builds(MessageQueue, st.just("Orders"), st.sampled_from([A, B]), st.integers(0, 2)), max_size=3)
CODES = st.sampled_from([0, 0, 0, 1, 2])
TIMES = st.integers(START, START + 300_000)


def hook_events() -> st.SearchStrategy[AnyEvent]:
    """Valid events of the hooks of two brokers and a slave, of two incarnations."""
    group = {
        "time": TIMES,
        "cluster": st.just("c"),
        "group": st.just("g"),
        "broker": st.sampled_from([A, B]),
        "broker_id": st.sampled_from([0, 0, 0, 1]),
        "source": st.just("hook"),
        "source_id": st.sampled_from(["hook-a@1", "hook-a@2", "hook-b@1"]),
        "seq": st.integers(0, 200),
    }
    broadcast = {name: value for name, value in group.items() if name != "group"}
    fields = group | {"channel": CHANNELS, "code": CODES}
    of_queue = fields | {"topic": st.just("Orders"), "queue_id": st.integers(0, 2)}
    subscriptions = st.lists(
        st.builds(Subscription, topic=st.sampled_from(["Orders", "Other"]), sub_string=st.just("*")), max_size=2
    ).map(tuple)
    pulled = {"first_time": TIMES, "last_time": TIMES, "first_offset": st.just(0), "last_offset": st.just(9)}
    pulled |= {"commit_offset": st.integers(-1, 9), "count": st.just(1)}
    model = {
        "consume_type": st.just("CONSUME_PASSIVELY"),
        "message_model": st.sampled_from(["CLUSTERING", "BROADCASTING"]),
    }
    return st.one_of(
        st.builds(
            HeartBeat, **fields, **model, client_id=NAMES, subscriptions=subscriptions, without_sub=st.booleans()
        ),
        st.builds(UnregisterClient, **fields, client_id=NAMES),
        st.builds(LockBatchMq, **fields, client_id=NAMES, requested=QUEUES.map(tuple), granted=QUEUES.map(tuple)),
        st.builds(UnlockBatchMq, **fields, client_id=NAMES, queues=QUEUES.map(tuple)),
        st.builds(UpdateConsumerOffset, **of_queue, offset=st.integers(-1, 9)),
        st.builds(QueryConsumerOffset, **of_queue),
        st.builds(PullMessage, **of_queue, **pulled),
        st.builds(GetConsumerListByGroup, **fields, asked=TIMES, consumer_ids=st.lists(NAMES, max_size=3).map(tuple)),
        st.builds(BrokerStatus, **broadcast, boot_time=TIMES),
        st.builds(Tick, **broadcast),
    )


def test_the_log_leads_to_every_kind_of_row():
    expected = (
        "RELEASED",
        "OPENED",
        "RESOLVED",
        "ESCALATED",
        "HEARTBEAT_EXPIRED",
        "LOCK_GRANTED",
        "UNLOCKED",
        "BROKER_RESTARTED",
    )
    for name in expected:
        assert name.encode() in whole()


@FEWER
@given(st.sets(st.integers(0, len(LOG) - 1), max_size=60))
def test_the_result_does_not_depend_on_where_the_log_is_cut(cuts):
    assert fold(LOG, cuts) == whole()


def test_the_result_does_not_depend_on_a_cut_after_every_event():
    assert fold(LOG, set(range(len(LOG)))) == whole()


@FEWER
@given(st.integers(0, len(LOG) - 50), st.integers(1, 50))
@example(1828, 50)  # the last ticks of two sources: a copy is no sign of life
@example(862, 4)  # calls that a hook's row has already
@example(1870, 32)  # ticks of a hook that is silent: a copy does not make it late
def test_a_part_of_the_log_that_comes_twice_changes_nothing(start, length):
    assert fold(LOG[: start + length] + LOG[start:], set()) == whole()


def without_evidence(effects: bytes) -> list[dict[str, object]]:
    return [{name: value for name, value in e.items() if name != "evidence"} for e in msgspec.json.decode(effects)]


def test_losses_reported_by_a_source_are_evidence_and_no_conclusion():
    """Missing events show in the numbers of each group; the broadcast itself opens and resolves nothing."""
    lost = TelemetryLost(
        from_time=START, to_time=START, count=3, reason="disk full", seq=9, **HookTrace()._common(START)
    )
    assert without_evidence(fold([*LOG[:900], lost, *LOG[900:]], set())) == without_evidence(whole())


def in_order_of_time(rows: bytes) -> list[dict[str, object]]:
    """Without what is written as it arrives, and when it was known."""
    return [one for one in msgspec.json.decode(rows) if one.pop("known_at", 0)]


@pytest.mark.parametrize("source", ["hook-broker-a", "hook-broker-b", "poll-1"])
@pytest.mark.parametrize("late", [15_000, *(pytest.param(late, marks=pytest.mark.prove) for late in (1_000, 10_000))])
def test_a_source_that_is_late_in_the_log_by_up_to_15_s_changes_nothing(source, late):
    def stamp(event: AnyEvent) -> int:
        return event.time + (late if event.source_id.startswith(source) else 0)

    fold, rows = Fold(POLICY), []
    for event in sorted(LOG, key=stamp):
        rows += fold.push(event, stamp(event))
    assert in_order_of_time(as_json(rows + fold.shard.finish())) == in_order_of_time(whole())


def test_groups_are_independent():
    one = [event for event in LOG if not isinstance(event, GroupEvent) or event.group == "g"]
    mine = [e for e in msgspec.json.decode(whole()) if e["group"] in {"g", ""}]
    assert msgspec.json.decode(fold(one, set())) == mine


def test_a_group_without_anything_is_forgotten_after_its_time():
    policy = Policy(group_memory=1_000_000)
    fold = Fold(policy)
    trace = Trace().poll(0, {"a": holding(0)}).poll(10, {})
    for event in trace.events:
        fold.push(event)
    ticks = [
        Tick(time=START + 1000 * seconds, cluster="c", source="poll", source_id=trace.source_id, seq=seconds)
        for seconds in (30, 900, 1200, 1500)
    ]
    for tick in ticks[:2]:
        fold.push(tick)
    fold.cut()
    assert set(fold.groups) == {"c/g", "progress c/g"}
    for tick in ticks[2:]:
        fold.push(tick)
    fold.cut()
    assert list(fold.groups) == []


@given(st.lists(st.integers(0, len(LOG) - 1), max_size=200))
def test_any_events_in_any_order_have_a_result(order):
    """Total: shuffled, doubled and torn logs are folded without an error, and the state stays sound."""
    fold_soundly(LOG[index] for index in order)


@given(st.integers(0, len(LOG) - 1), st.lists(st.tuples(st.integers(0, 400), st.booleans()), max_size=250))
def test_a_log_that_is_stirred_doubled_and_full_of_holes_has_a_result(start, moves):
    """Nearer to what may happen than any order: from somewhere on, events move by up to 400 places, or are lost."""
    part = [
        (place + late, index)
        for index, (place, (late, kept)) in enumerate(zip(itertools.count(start), moves, strict=False))
        if kept
    ]
    order = [start + index for _, index in sorted(part)]
    fold_soundly(LOG[index % len(LOG)] for index in [*order, *order[::7]])


@given(st.lists(hook_events(), max_size=60))
def test_any_valid_hook_events_have_a_result(events):
    """Including events that no broker would send: other brokers' queues, channels shared, time that falls, no ticks."""
    fold_soundly(events)


def test_an_answer_of_an_unlisted_client_proves_no_ownership():
    trace = Trace().poll(0, {"b": holding(2, 3)})
    trace._fold(trace._answer("ghost", holding(0), START + 5_000))
    assert trace.owners()[0] is None
    trace.poll(10, {"b": holding(2, 3)})
    assert "ghost" not in trace.state.clients


def test_a_client_that_the_broker_does_not_find_gives_its_queues_up():
    trace = Trace().poll(0, {"a": holding(0, 1), "b": holding(2, 3)})
    gone = trace._answer("a", GONE, START + 5_000)
    assert gone.error is not None
    trace._fold(gone)
    assert trace.owners() == {0: None, 1: None, 2: "b", 3: "b"}
