"""Pulls that the broker answers with an error, or that a suspended client does not send (issue 32, C)."""

import gzip
import json
from functools import lru_cache
from pathlib import Path

import pytest

from rebalance_model.observe.events import ConsumerRunningInfo, PullMessage
from rebalance_model.observe.events.decoding import decode
from tests.support.field import Concluded, changed, concluded, concluded_of, events_of

LAB = Path(__file__).parent / "lab"
ORDERS = [f"Orders@broker-a:{queue}" for queue in range(4)]


@lru_cache
def recorded(name: str, source: str) -> Concluded:
    """Return what is concluded of the recording of a real broker, by one kind of telemetry."""
    with gzip.open(LAB / f"{name}.jsonl.gz") as lines:
        events = [decode(line.rstrip(b"\n"), key=None, stamp=2**62, keyed=False) for line in lines]
    return concluded_of([one for one in events if source in (one.source, "both")])


def answered(code: int | None, *, until: float = 600, source: str = "hook") -> Concluded:
    """Return the case with another code, up to a time: later pulls are served."""
    events = events_of("03-pull-refused", source)
    end = events[0].time + until * 1000
    return concluded_of(
        [
            changed(one, code=code if one.time < end else None)
            if isinstance(one, PullMessage) and one.code is not None
            else one
            for one in events
        ]
    )


def roots(conclusions: Concluded) -> set[tuple[str, str]]:
    """Return code and sub-cause of the incidents that are open at the end and have no parent."""
    return {
        (one.code, one.sub_cause) for one in conclusions.open_at_end() if one.parent is None and one.severity != "info"
    }


@pytest.mark.parametrize("source", ["hook", "both"])
def test_refused_pulls_are_named_with_their_code_within_a_minute(source):
    conclusions = concluded("03-pull-refused", source)
    opened = [one for one in conclusions.transitions("PULL_REFUSED") if one.transition == "OPENED"]
    assert [one.subject for one in opened if one.severity == "critical"] == ORDERS
    assert {one.sub_cause for one in opened} == {"NO_PERMISSION"}
    assert all(conclusions.seconds(one) < 160 for one in opened)
    evidence = json.loads(opened[0].evidence)
    assert evidence["code"] == "16 NO_PERMISSION"
    assert evidence["broker"] == "broker-a"
    assert evidence["refused"] >= 40
    assert evidence["refused_since"] - conclusions.start in range(98_000, 101_000)
    assert {code for code, _ in roots(conclusions)} == {"PULL_REFUSED"}
    assert conclusions.group().health == "BAD"


def test_by_polls_a_client_that_pulls_and_receives_nothing_is_named():
    found = concluded("03-pull-refused", "poll")
    assert roots(found) == {("QUEUE_STALLED", "NOTHING_RECEIVED")}


@pytest.mark.parametrize(("source", "why"), [("poll", "NOTHING_RECEIVED"), ("both", "PULL_REFUSED")])
def test_an_ordered_queue_is_stuck_because_its_pulls_are_refused(source, why):
    found = concluded("03b-pull-refused-ordered", source)
    assert {one.sub_cause for one in found.transitions("ORDERED_QUEUE_STUCK")} == {why}


@pytest.mark.parametrize("case", ["18-topic-write-only", "18b-topic-write-only-ordered"])
def test_a_topic_without_a_readable_queue_is_no_storm_and_no_lost_broker(case):
    for source, why in (("poll", "TOPIC_NOT_READABLE"), ("both", "PULL_REFUSED")):
        conclusions = concluded(case, source)
        stalled = conclusions.transitions("QUEUE_STALLED", "ORDERED_QUEUE_STUCK")
        assert {one.sub_cause for one in stalled} == {why}
        assert [one for one in conclusions.effects if getattr(one, "trigger", "") == "BROKER_LOST"] == []
    refused = [one for one in concluded(case, "both").transitions("PULL_REFUSED") if one.topic == "Orders"]
    assert {one.sub_cause for one in refused} == {"TOPIC_NOT_READABLE"}
    assert {one.code for one in concluded(case, "hook").open_at_end()} == {"PULL_REFUSED"}


@pytest.mark.parametrize("source", ["hook", "both"])
@pytest.mark.parametrize(
    ("name", "topic", "why"), [("ce-group", "CeT", "NO_PERMISSION"), ("perm-group", "PermT", "TOPIC_NOT_READABLE")]
)
def test_a_real_brokers_refusals_tell_the_group_from_the_topic(name, topic, why, source):
    """The write-only topic's retry topic is served, and its clients rebalance every second: no storm."""
    conclusions = recorded(name, source)
    refused = [one for one in conclusions.open_at_end() if one.code == "PULL_REFUSED"]
    assert {(one.topic, one.sub_cause) for one in refused if one.topic == topic} == {(topic, why)}
    assert any(one.topic != topic for one in refused) is (name == "ce-group")
    assert {code for code, _ in roots(conclusions)} == {"PULL_REFUSED"}
    assert conclusions.transitions("REBALANCE_STORM") == []


@pytest.mark.parametrize(("name", "why"), [("ce-group", "NOTHING_RECEIVED"), ("perm-group", "TOPIC_NOT_READABLE")])
def test_by_polls_of_a_real_broker_the_queues_receive_nothing(name, why):
    assert roots(recorded(name, "poll")) == {("QUEUE_STALLED", why)}


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (17, "TOPIC_NOT_EXIST"),
        (24, "SUBSCRIPTION_NOT_EXIST"),
        (25, "SUBSCRIPTION_NOT_LATEST"),
        (26, "GROUP_NOT_EXIST"),
        (1, "ERROR"),
    ],
)
def test_each_code_has_its_own_cause(code, why):
    assert {one.sub_cause for one in answered(code).transitions("PULL_REFUSED")} == {why}


@pytest.mark.parametrize("code", [0, 19, 20, None])
def test_pulls_that_are_served_are_no_refusal(code):
    assert answered(code).transitions("PULL_REFUSED") == []


def test_an_offset_out_of_range_is_no_refusal():
    assert answered(21).transitions("PULL_REFUSED") == []


def test_a_refusal_until_the_next_heartbeat_is_quiet():
    """After its restart a broker refuses each pull (24) until its clients' heartbeats, up to 30 s later."""
    assert answered(24, until=130).transitions("PULL_REFUSED") == []


def test_pulls_that_are_served_again_resolve_the_refusal():
    conclusions = answered(16, until=300)
    resolved = [one for one in conclusions.transitions("PULL_REFUSED") if one.transition == "RESOLVED"]
    assert [one.subject for one in resolved if one.severity == "critical"] == ORDERS
    assert all(300 < conclusions.seconds(one) < 305 for one in resolved)
    assert conclusions.open_at_end() == []


def test_a_refusal_ends_with_the_pulls():
    """A client that no longer has the queue asks for it no more."""
    events = events_of("03-pull-refused", "hook")
    end = events[0].time + 300_000
    found = concluded_of([one for one in events if not isinstance(one, PullMessage) or one.time < end])
    last = {one.subject: one for one in found.transitions("PULL_REFUSED")}
    assert {one.transition for one in last.values()} == {"RESOLVED"}


@pytest.mark.parametrize(
    ("case", "code"), [("04-paused", "QUEUE_STALLED"), ("04b-paused-ordered", "ORDERED_QUEUE_STUCK")]
)
def test_a_suspended_consumer_is_named_when_its_queues_are_pull_expired(case, code):
    conclusions = concluded(case, "both")
    opened = [one for one in conclusions.transitions("PULL_EXPIRED") if one.transition == "OPENED"]
    assert [(one.subject, one.sub_cause, one.severity) for one in opened] == [
        (queue, "SUSPENDED", "warning") for queue in ORDERS
    ]
    assert all(conclusions.seconds(one) < 240 for one in opened)
    assert {one.sub_cause for one in conclusions.transitions(code)} == {"SUSPENDED"}
    assert {one.sub_cause for one in concluded(case, "poll").transitions(code)} == {"NOTHING_RECEIVED"}
    assert {one.code for one in concluded(case, "hook").open_at_end()} == {"PULL_EXPIRED"}


def test_a_consumer_that_is_resumed_is_not_suspended():
    """Its pulls reach the broker again, and it has messages."""
    events, healthy = events_of("04-paused", "both"), events_of("09-retry-stuck", "both")
    cut = 250_000
    conclusions = concluded_of(
        [one for one in events if one.time - events[0].time < cut]
        + [one for one in healthy if one.time - healthy[0].time >= cut]
    )
    suspended = [one for one in conclusions.open_at_end() if one.sub_cause == "SUSPENDED"]
    assert suspended == []


def test_a_client_whose_stamps_are_old_is_not_suspended():
    """Its pull thread is blocked: PULL_EXPIRED as before, after pullMaxIdleTime."""
    events = events_of("04-paused", "both")
    frozen = events[0].time + 100_000

    def aged(event: ConsumerRunningInfo) -> ConsumerRunningInfo:
        queues = tuple(changed(queue, pull_time=min(queue.pull_time, frozen)) for queue in event.queues or ())
        return changed(event, queues=queues)

    found = concluded_of([aged(one) if isinstance(one, ConsumerRunningInfo) else one for one in events])
    opened = [one for one in found.transitions("PULL_EXPIRED") if one.transition == "OPENED"]
    assert {(one.sub_cause, one.severity) for one in opened} == {("", "critical")}
