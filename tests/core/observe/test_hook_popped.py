"""Calls about popped messages, and proxies' heartbeats, that anybody may send: they disturb nothing of the members."""

from pathlib import Path

import msgspec
import pytest

from rebalance_model.observe.effects import GroupSnapshot
from rebalance_model.observe.events import (
    AckMessage,
    ChangeMessageInvisibletime,
    PopMessage,
    ProxyHeartBeat,
)
from rebalance_model.observe.events.decoding import RejectedError, decode
from tests.support.hook_groups import ordered
from tests.support.hook_trace import HookTrace

EXAMPLES = Path(__file__).parents[3] / "schemas/examples"
REJECTED = [msgspec.json.decode(line) for line in (EXAMPLES / "rejected/popped.jsonl").read_bytes().splitlines()]
OF_A_QUEUE = {"channel": "a:0", "topic": "Orders", "queue_id": 0}


def popped(trace: HookTrace, at: float, *, channel: str = "a:0") -> HookTrace:
    """Emit a call of each of the kinds."""
    now, of_queue = trace.clock(at), OF_A_QUEUE | {"channel": channel}
    within = {"first_time": now, "last_time": now}
    trace._emit(at, PopMessage, **of_queue, **within, count=1)
    stamps = {"pop_time_min": now - 5, "pop_time_max": now - 5, "invisible_ms": 60_000}
    trace._emit(at, AckMessage, **of_queue, **within, **stamps, code=0, ranges=((2**40, 2**48 - 1),))
    times = {"pop_time": now + 3_600_000, "invisible_ms": 0, "changed_ms": 1_000}
    trace._emit(at, ChangeMessageInvisibletime, **of_queue, **times, offset=7)
    return trace._emit(at, ProxyHeartBeat, channel=channel, client_id="of a proxy", proxy="p", registers=True)


def story(trace: HookTrace, *, pops: bool) -> HookTrace:
    for second in range(1, 100, 3):
        trace.heart_beat(second, "a", "b").commits(second, "a", 0, second // 10).passes(second + 1)
        if pops:
            popped(trace, second + 1, channel="10.9.9.9:1")
    return trace


@pytest.mark.parametrize("line", (EXAMPLES / "accepted/popped.jsonl").read_bytes().splitlines())
def test_a_call_about_popped_messages_is_encoded_as_it_is_read(line):
    event = decode(line, key=None, stamp=2**62, keyed=False)
    assert decode(msgspec.json.encode(event), key=None, stamp=2**62, keyed=False) == event


@pytest.mark.parametrize("example", REJECTED, ids=lambda example: example["why"])
def test_a_call_that_can_not_have_been_is_rejected(example):
    with pytest.raises(RejectedError) as rejected:
        decode(example["value"].encode(), key=None, stamp=2**62, keyed=False)
    assert rejected.value.reason == example["reason"]


def without_health(trace: HookTrace) -> list[object]:
    """Return what the rows say, without the group's own health and coverage."""
    others = [row for row in trace.effects if not isinstance(row, GroupSnapshot)]
    return [msgspec.structs.replace(row, seq=0, cause="") for row in others]


def test_calls_of_strangers_change_no_owner_and_no_incident():
    """The group has a lock that expires, and queues without a client."""
    with_pops, without = story(ordered(), pops=True), story(ordered(), pops=False)
    assert without_health(with_pops) == without_health(without)
    assert {type(row).__name__ for row in without.effects} >= {"IncidentTransition", "AssignmentChange"}


def test_a_group_without_members_at_the_broker_is_not_observed_by_its_pops():
    """Of a proxy's clients no broker lists any: nothing is known, and so nothing can be wrong."""
    trace = popped(HookTrace(), 1)
    assert trace.state.views == {}
    assert {effect.health for effect in trace.effects} == {"UNKNOWN"}


def test_a_gap_that_a_pop_shows_is_one_of_all_calls():
    trace = ordered()
    assert trace.view().lost_at == 0
    trace.hook_seq["broker-a-0"] += 1
    popped(trace, 12)
    assert trace.view().lost_at == trace.clock(12)


def test_a_restart_that_a_pop_shows_is_one_of_the_broker():
    trace = ordered()
    trace.boot["broker-a"], trace.hook_seq["broker-a-0"] = trace.clock(10), 5
    popped(trace, 12)
    assert (trace.channels(), trace.lock_table()) == ({}, {})
