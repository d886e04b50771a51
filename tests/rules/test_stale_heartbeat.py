"""STALE_HEARTBEAT: a member without recent heartbeats, or one that a broker does not register."""

from dataclasses import dataclass

import msgspec
import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import Connection, ConsumerConnection, TopicRoute
from tests.support.hook_trace import HookTrace
from tests.support.incident_rows import distinct_transitions, evidence, rows
from tests.support.lock_traces import ordered
from tests.support.trace import START, TOPIC, Trace, holding


def test_a_heartbeat_is_stale_past_two_intervals_and_fresh_with_the_next():
    """SIGSTOP at 305, last heartbeat 277.1."""
    trace = ordered(277.1).passes(300).locks(306, "a", 0, 1).locks(306, "b", 2, 3)
    trace.heart_beat(307, "b").locks(330, "b", 2, 3).passes(337.1)
    assert trace.incidents("STALE_HEARTBEAT") == []
    trace.passes(337.2).heart_beat(340, "a").locks(341, "a", 0, 1)
    assert distinct_transitions(trace, "STALE_HEARTBEAT") == [
        (337.101, "OPENED", "STALE_HEARTBEAT"),
        (341, "RESOLVED", "STALE_HEARTBEAT"),  # clear at 340; its locks, which it explains, are renewed at 341
    ]


def test_a_stale_member_that_is_dropped_is_stale_no_more():
    trace = ordered()
    for at in range(20, 140, 20):
        trace.heart_beat(at, "b").passes(at + 19)
    assert distinct_transitions(trace, "STALE_HEARTBEAT") == [
        (60.001, "OPENED", "STALE_HEARTBEAT"),
        (61.002, "ESCALATED", "STALE_HEARTBEAT"),  # a lock of it has expired for all
        (130.001, "RESOLVED", "STALE_HEARTBEAT"),
    ]
    assert evidence(trace, "STALE_HEARTBEAT")[0]["heartbeat_age_ms"] == 60_001


def test_a_heartbeat_that_may_have_been_lost_is_not_stale():
    trace = ordered().heart_beat(30, "b")
    trace.hook_seq["broker-a-0"] += 1
    trace.heart_beat(50, "b").heart_beat(80, "b").passes(100)
    assert trace.incidents("STALE_HEARTBEAT") == []


def test_a_member_that_was_frozen_before_the_hook_began_is_stale_too():
    trace = HookTrace().lists(0, "a", "b").heart_beat(1, "b").heart_beat(31, "b").passes(61)
    assert distinct_transitions(trace, "STALE_HEARTBEAT") == [(60.001, "OPENED", "STALE_HEARTBEAT")]


@dataclass
class TwoBrokers:
    """A topic on two brokers, of which the second one is polled as told: does it list the group, and its members?"""

    trace: Trace
    others: str = ""

    def poll(self, begin, end, *, is_created, lists=(), serves=True):
        members = {"a": holding(0, 1), "b": holding(2, 3)} | dict.fromkeys(self.others, holding())
        queues = tuple(
            MessageQueue(TOPIC, broker, n) for broker in ("broker-a", "broker-b")[: 1 + serves] for n in (0, 1)
        )
        listed = tuple(Connection(client_id=one, channel=f"{one}:0") for one in lists)
        for at in range(begin, end, 10):
            now, trace = START + 1000 * at, self.trace.tick(at)
            trace._fold(TopicRoute(topic=TOPIC, queues=queues, **trace._poll(now)))
            trace._fold(trace._connections(members, now))
            answer = {**trace._poll(now), "broker": "broker-b", "is_created": None if is_created else False}
            trace._fold(ConsumerConnection(connections=listed, **answer))
        return self

    def transitions(self):
        rows = [one for one in self.trace.effects if getattr(one, "code", "") in {"STALE_HEARTBEAT", "CID_VIEW_SPLIT"}]
        return [(row.transition, row.code, row.sub_cause, row.subject, row.parent is None) for row in rows]


def test_a_broker_that_never_had_the_group_is_named_by_polls():
    brokers = TwoBrokers(Trace()).poll(0, 140, is_created=False)
    assert brokers.transitions() == [
        ("OPENED", "STALE_HEARTBEAT", "GROUP_NOT_CREATED", "a", True),
        ("OPENED", "STALE_HEARTBEAT", "GROUP_NOT_CREATED", "b", True),
        ("OPENED", "CID_VIEW_SPLIT", "", "", False),
    ]
    assert evidence(brokers.trace, "STALE_HEARTBEAT")[0] == {"broker": "broker-b", "not_created_since": START}
    brokers.poll(140, 160, is_created=True)
    assert len(brokers.transitions()) == 3, "each member's next heartbeat registers it"
    brokers.poll(160, 170, is_created=True, lists=("a", "b"))
    assert {row[:2] for row in brokers.transitions()[3:]} == {
        ("RESOLVED", "STALE_HEARTBEAT"),
        ("RESOLVED", "CID_VIEW_SPLIT"),
    }


def test_incidents_of_many_members_end_in_the_members_order():
    """Not in that of a set, which differs from process to process."""
    ids = "abcdefgh"
    brokers = TwoBrokers(Trace(), others=ids[2:]).poll(0, 160, is_created=False)
    brokers.poll(160, 170, is_created=True, lists=ids)
    ended = [row[3] for row in brokers.transitions() if row[:2] == ("RESOLVED", "STALE_HEARTBEAT")]
    assert ended == list(ids)


def test_a_group_that_the_members_first_heartbeats_create_is_a_near_miss():
    brokers = TwoBrokers(Trace()).poll(0, 50, is_created=False).poll(50, 200, is_created=True, lists=("a", "b"))
    assert brokers.transitions() == []


def test_a_broker_without_queues_of_the_groups_topics_needs_no_group():
    assert TwoBrokers(Trace()).poll(0, 200, is_created=False, serves=False).transitions() == []


def test_members_that_a_broker_with_the_group_does_not_list_are_a_split():
    brokers = TwoBrokers(Trace()).poll(0, 100, is_created=False).poll(100, 200, is_created=True)
    assert brokers.transitions()[3:] == [("ESCALATED", "CID_VIEW_SPLIT", "", "", True)]


@pytest.mark.parametrize(("listed_at", "transition"), [(115, ["GROUP_NOT_CREATED"]), (125, [])])
def test_an_empty_list_after_the_heartbeats_time_of_120_s_skips_no_group(listed_at, transition):
    """The broker has dropped the member, as it should: the next heartbeat registers it. Before that time it has not."""
    trace = HookTrace().boots(0).heart_beat(1, "a").passes(listed_at).lists(listed_at + 1, code=1, channel="a:0")
    trace.heart_beat(listed_at + 2, "a")
    opened = [one.sub_cause for one in rows(trace, "STALE_HEARTBEAT") if one.sub_cause]
    assert (opened, trace.state.members) == (transition, () if transition else ("a",))


def test_a_heartbeat_after_the_request_of_an_empty_list_is_not_skipped():
    """That of a came before the request, and that of b while the broker answered."""
    trace = HookTrace().boots(0).heart_beat(1, "a").heart_beat(2, "b").lists(3, code=1, asked=1.5, channel="a:0")
    assert {one.subject for one in rows(trace.passes(4), "STALE_HEARTBEAT")} == {"a"}


def test_expired_pulls_of_a_broker_that_lacks_the_group_are_under_that():
    """By polls alone: the broker refuses a's pulls, so the stamps of the queue 0 of broker-b stand."""
    brokers = TwoBrokers(Trace())
    for at in range(0, 240, 10):
        brokers.poll(at, at + 10, is_created=False)
        answer = brokers.trace._answer("a", holding(0, 1, pull_age=at), brokers.trace.now)
        here, there = answer.queues
        there = msgspec.structs.replace(there, mq=MessageQueue(TOPIC, "broker-b", 0))
        brokers.trace._fold(msgspec.structs.replace(answer, queues=(here, there)))
    [cause] = [
        one for one in rows(brokers.trace, "STALE_HEARTBEAT") if (one.subject, one.transition) == ("a", "OPENED")
    ]
    expired = [one for one in rows(brokers.trace, "PULL_EXPIRED") if one.transition == "OPENED"]
    assert {one.subject: one.parent for one in expired} == {
        f"{TOPIC}@broker-a:0": None,
        f"{TOPIC}@broker-b:0": cause.incident_id,
    }


def killed(*, listed_at: float = 0) -> HookTrace:
    """Two brokers, of which a and c ask only the first one, at 25 and 45, for the list of members; b is killed at 40.

    At ``listed_at`` the second one lists b still.
    """
    trace = HookTrace()
    for at in (1, 31):
        for broker in ("broker-a", "broker-b"):
            trace.of(broker).heart_beat(at, "a", "b", "c")
    trace.of("broker-a").lists(32, "a", "b", "c", channel="a:0").lists(45, "a", "c", channel="a:0")
    trace.of("broker-b").lists(32, "a", "b", "c", channel="a:0")
    if listed_at:
        trace.lists(listed_at, "a", "b", "c", channel="a:0")
    for at in (61, 91):
        for broker in ("broker-a", "broker-b"):
            trace.of(broker).heart_beat(at, "a", "c")
    return trace.passes(95)


def test_a_process_that_ended_is_not_stale_at_a_broker_that_nobody_asks():
    """From the simulation, seed 2551: its connections to all brokers have closed."""
    assert killed().incidents("STALE_HEARTBEAT") == []


def test_a_broker_that_still_lists_a_member_has_a_stale_one():
    """As where it is cut off from that broker when it ends."""
    assert distinct_transitions(killed(listed_at=70), "STALE_HEARTBEAT") == [(91.001, "OPENED", "STALE_HEARTBEAT")]


def test_a_process_that_returns_is_not_stale_until_it_reaches_every_broker():
    """From the simulation, seed 1663: it is known at the first broker, and its heartbeat for the second one follows."""
    trace = killed().of("broker-a").heart_beat(96, "b", number=1).of("broker-b").heart_beat(96, "b", number=1)
    assert trace.passes(99).incidents("STALE_HEARTBEAT") == []


def test_a_broker_that_the_group_has_left_shows_nothing():
    """Its topic is at another broker by now; a member that came later never was at the former one."""
    trace = HookTrace()
    trace.of("broker-b").heart_beat(1, "a")
    for at in range(1, 332, 30):
        trace.of("broker-a").heart_beat(at, *(("a", "d") if 180 < at < 240 else ("a",)))
        trace.of("broker-b").passes(at + 1)
    opened = [one.subject for one in rows(trace, "STALE_HEARTBEAT") if one.transition == "OPENED"]
    assert opened == ["a", "d"]
