"""A shard's result does not depend on where its log is cut into batches, nor on copies of what was folded."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rebalance_model.observe.events import Answer, AnyEvent, RpcError, Tick
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.shard import Shard
from tests.scenarios.trace import SILENT, START, Held, Member, Trace, as_json, holding

POLICY = Policy()


class Store(dict[str, bytes]):
    """The groups' blobs in a dictionary."""

    def put(self, key: str, blob: bytes) -> None:
        self[key] = blob

    def remove(self, key: str) -> None:
        self.pop(key, None)


def a_log() -> list[AnyEvent]:
    """Two groups of one collector, with everything that leads to rows, and a tick every second."""
    stuck = Member((Held(0, consume_age=1, cached=10), Held(1)))
    trace = Trace()
    commit = {q: (100, 90 + q) for q in range(4)}
    trace.poll(0, {"a": holding(0, 1), "b": holding(2, 3)}, commit)
    for n in range(1, 12):
        offsets = {q: (100 + 10 * n, 90 if q == 0 else 90 + 10 * n) for q in range(4)}
        members = {"a": stuck, "b": holding(2, 3)} if n < 9 else {"a": SILENT, "b": holding(2, 3)}
        trace.poll(10 * n, members, offsets)
    trace.poll(160, {"b": holding(2, 3)}, {0: (300, 95)})
    trace.poll(170, {"b": holding(0, 1, 2, 3)}, {0: (300, 200)})
    keyed = [
        msgspec.structs.replace(event, group=group, seq=event.seq) for event in trace.events for group in ("g", "h")
    ]
    ticks = [
        Tick(time=START + 1000 * n, cluster="c", source="poll", source_id=trace.source_id, seq=n) for n in range(700)
    ]
    return sorted([*keyed, *ticks], key=lambda event: (event.time, isinstance(event, Answer)))


LOG = a_log()


def fold(log: list[AnyEvent], cuts: set[int]) -> bytes:
    store, blob, effects = Store(), None, []
    shard = Shard(blob, store, POLICY)
    for index, event in enumerate(log):
        if index in cuts:
            shard = Shard(shard.flush(), store, POLICY)
        effects += shard.fold(event)
    return as_json(effects)


WHOLE = fold(LOG, set())


def test_the_log_leads_to_every_kind_of_row():
    for name in ("RELEASED", "OPENED", "RESOLVED", "ESCALATED", "CLIENT_DIED"):
        assert name.encode() in WHOLE


@given(st.sets(st.integers(0, len(LOG) - 1), max_size=60))
def test_the_result_does_not_depend_on_where_the_log_is_cut(cuts):
    assert fold(LOG, cuts) == WHOLE


def test_the_result_does_not_depend_on_a_cut_after_every_event():
    assert fold(LOG, set(range(len(LOG)))) == WHOLE


@given(st.integers(0, len(LOG) - 50), st.integers(1, 50))
def test_a_part_of_the_log_that_comes_twice_changes_nothing(start, length):
    assert fold(LOG[: start + length] + LOG[start:], set()) == WHOLE


def test_groups_are_independent():
    one = [event for event in LOG if not isinstance(event, Answer) or event.group == "g"]
    mine = [e for e in msgspec.json.decode(WHOLE) if e["group"] == "g"]
    assert msgspec.json.decode(fold(one, set())) == mine


def test_a_group_without_anything_is_forgotten_after_its_time():
    policy = Policy(group_memory=1_000_000)
    store = Store()
    shard = Shard(None, store, policy)
    trace = Trace().poll(0, {"a": holding(0)}).poll(10, {})
    for event in trace.events:
        shard.fold(event)
    blob = shard.flush()
    assert list(store) == ["c/g"]
    shard = Shard(blob, store, policy)
    for seconds in (900, 1200, 1500):
        shard.fold(
            Tick(time=START + 1000 * seconds, cluster="c", source="poll", source_id=trace.source_id, seq=seconds)
        )
    shard.flush()
    assert list(store) == []


@given(st.lists(st.integers(0, len(LOG) - 1), max_size=200))
def test_any_events_in_any_order_have_a_result(order):
    """Total: shuffled, doubled and torn logs are folded without an error, and the state stays sound."""
    store = Store()
    shard = Shard(None, store, POLICY)
    for index in order:
        shard.fold(LOG[index])
        for state in shard._groups.values():
            state.validate()


def test_an_answer_of_a_client_nobody_lists_is_no_ownership():
    trace = Trace().poll(0, {"b": holding(2, 3)})
    trace._fold(trace._answer("ghost", holding(0), START + 5_000))
    assert trace.owners()[0] is None
    trace.poll(10, {"b": holding(2, 3)})
    assert "ghost" not in trace.state.clients


def test_a_client_that_the_broker_does_not_find_gives_its_queues_up():
    trace = Trace().poll(0, {"a": holding(0, 1), "b": holding(2, 3)})
    gone = trace._answer("a", Member(error=1), START + 5_000)
    assert gone.error == RpcError(code=1)
    trace._fold(gone)
    assert trace.owners() == {0: None, 1: None, 2: "b", 3: "b"}
