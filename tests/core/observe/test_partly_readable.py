"""Answers of which a part can't be read: nothing follows from what is missing, and coverage names it."""

import json

import pytest
from msgspec.structs import replace

from rebalance_model.observe.effects import GroupSnapshot
from rebalance_model.observe.events import (
    UNREADABLE,
    Connection,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    OffsetInfo,
    ProcessQueueInfo,
    RpcError,
)
from tests.support.trace import START, Member, Trace, holding, mq

TWO = {"a": holding(0, 1), "b": holding(2, 3)}
UNSUPPORTED = Member(error=3, remark="request type not supported")


def listed(trace: Trace, at: float, *clients: str, language: str = "", **fields: object) -> Trace:
    """The broker lists these members, all in one language."""
    rows = tuple(Connection(client_id=c, channel=f"{c}:0", language=language, version=431) for c in clients)
    known = trace.tick(at)._connections(TWO, trace.now)
    answer = {name: getattr(known, name) for name in ("subscriptions", "consume_type", "message_model")}
    trace._fold(ConsumerConnection(connections=rows, **answer, **trace._poll(trace.now), **fields))
    return trace


def offsets(trace: Trace, at: float, **fields: object) -> Trace:
    trace._fold(ConsumeStats(**trace._poll(START + round(at * 1000)), **fields))
    return trace


def unreadable(trace: Trace) -> list[str]:
    """Return what the group's last row says that it can't read."""
    [*_, last] = [one for one in trace.effects if isinstance(one, GroupSnapshot)]
    return json.loads(last.coverage)["unreadable"]


def test_a_member_that_an_incomplete_list_lacks_has_not_left():
    trace = listed(Trace().poll(0, TWO), 10, "a", incomplete=True)
    assert trace.state.members == ("a", "b")
    assert listed(trace, 20, "a").state.members == ("a",)


def test_what_of_offsets_cannot_be_read_is_in_the_coverage_until_it_can():
    trace = offsets(Trace().poll(0, TWO), 10, queues=(), unreadable=("Orders:x: queueId is no number",))
    assert unreadable(trace) == ["broker-a: Orders:x: queueId is no number"]
    offsets(trace, 20, error=RpcError(code=UNREADABLE, remark="no JSON"))
    assert unreadable(trace) == ["broker-a: no JSON"]
    assert unreadable(offsets(trace, 30, queues=())) == []


def test_what_of_a_list_cannot_be_read_is_in_the_coverage_until_it_can():
    """Its members are as before."""
    trace = Trace().poll(0, TWO)
    for at, parts in ((10, ("a: version is no number",)), (20, ())):
        answer = trace.tick(at)._connections(TWO, trace.now)
        trace._fold(replace(answer, unreadable=parts))
        assert unreadable(trace) == [f"broker-a: {part}" for part in parts]


def test_a_client_that_cannot_be_read_is_named_with_its_language():
    trace = listed(Trace().poll(0, {"a": UNSUPPORTED, "b": UNSUPPORTED}), 10, "a", "b", language="GO")
    said = "answers code 3: request type not supported"
    assert unreadable(trace) == [f"a (GO 431): {said}", f"b (GO 431): {said}"]
    assert unreadable(listed(trace, 20, "a", "b").poll(400, TWO | {"b": UNSUPPORTED})) == [f"b: {said}"]


@pytest.mark.parametrize(
    ("language", "of_nothing", "of_some"),
    [("JAVA", (0, 0), (3, 1)), ("GO", (None, 0), (3, 1)), ("CPP", (0, None), (3, 1)), ("DOTNET", (None, None), (3, 1))],
)
def test_what_a_kind_of_client_never_reports_is_unknown(language, of_nothing, of_some):
    """A number that it does report counts; an answer that repeats the one before shows no more than that did."""
    trace = listed(Trace(), 0, "a", language=language)
    for at in range(1, 222, 10):
        counts = (3, 1) if at == 211 else (0, 0)
        offsets(trace, at, queues=(OffsetInfo(mq=mq(0), broker_offset=9, consumer_offset=7),))
        queue = ProcessQueueInfo(
            mq=mq(0), commit_offset=7, cached_count=counts[0], transaction_count=counts[1], locked=True, dropped=False,
            lock_time=START + at, pull_time=START + at, consume_time=START,
        )  # fmt: skip
        now = START + at * 1000
        trace._fold(ConsumerRunningInfo(client_id="a", orderly=True, queues=(queue,), **trace._poll(now)))
        held = trace.state.clients["a"].queues[mq(0)]
        assert (held.cached_count, held.transaction_count) == (of_some if counts[0] else of_nothing)
