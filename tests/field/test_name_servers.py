"""Name servers that disagree: a client, or the collector, has a route without a broker (issue 32, H)."""

from collections.abc import Mapping

import msgspec
import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import (
    UNREACHABLE,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeTimeSpan,
    RpcError,
    TopicRoute,
)
from rebalance_model.observe.policy import Policy
from streaming.queries.results import TelemetryCoverage
from streaming.serve.dashboard.parts.markup import coverage_of
from tests.support.field import changed, changed_events, concluded, concluded_of, numbered, without_answer

SPLIT, FROM_START, PARTIAL = "07-ns-split", "07b-ns-split-from-start", "07c-ns-split-collector-partial"
CODE = "ROUTE_VIEW_SPLIT"
ONE, TWO = "10.0.0.1@c1", "10.0.0.2@c2"
WHOLE = {ONE: "a0 a1 a2 a3", TWO: "b0 b1 b2 b3"}
WITHOUT_B = {ONE: "a0 a1 a2 a3", TWO: "a2 a3"}
"""The shares of `07-ns-split`: the second client's route lacks broker-b."""


def queues(text):
    return [MessageQueue("Orders", f"broker-{name[0]}", int(name[1:])) for name in text.split()]


def having(*spans: tuple[float, Mapping[str, str]], strategy: str | None = None):
    """Return the change that gives each client other queues, from a second on."""

    def change(event, second):
        if not isinstance(event, ConsumerRunningInfo) or event.error is not None:
            return event
        share = [shares for since, shares in spans if second >= since][-1][event.client_id]
        kept = [one for one in event.queues if one.mq.is_retry]
        like = next(one for one in event.queues if not one.mq.is_retry)
        mine = [changed(like, mq=mq) for mq in queues(share)]
        return changed(event, queues=(*mine, *kept), strategy=strategy or event.strategy)

    return change


def with_route(*spans: tuple[float, str]):
    """Return the change that gives the collector another route of the topic, from a second on."""

    def change(event, second):
        if not isinstance(event, TopicRoute) or event.topic != "Orders":
            return event
        return changed(event, queues=tuple(queues([text for since, text in spans if second >= since][-1])))

    return change


def evidence(conclusions, transition=0):
    return msgspec.json.decode(conclusions.transitions(CODE)[transition].evidence)


def roots(conclusions):
    """Return the codes of the incidents open at the end that no other one explains; duplicates are an info."""
    return {one.code for one in conclusions.open_at_end() if one.parent is None} - {"DUPLICATE_CONSUMPTION"}


@pytest.mark.parametrize(
    ("case", "source"), [(SPLIT, "poll"), (SPLIT, "hook"), (SPLIT, "both"), (FROM_START, "poll"), (FROM_START, "both")]
)
def test_a_client_whose_name_server_lost_a_broker_is_one_incident(case, source):
    conclusions = concluded(case, source)
    assert roots(conclusions) == {CODE}
    first, *more = conclusions.transitions(CODE)
    assert (first.sub_cause, first.severity, first.client_id, more) == ("NAME_SERVERS", "critical", TWO, [])
    assert evidence(conclusions)["who"] == TWO
    assert evidence(conclusions)["route_lacks"] == "broker-b"
    assert conclusions.group().health == "BAD"


def test_by_the_hook_a_broker_whose_queues_nobody_ever_read_is_unknown():
    """No hook has seen the queues of broker-b; that two clients read one queue is certain."""
    assert roots(concluded(FROM_START, "hook")) == {"QUEUE_DOUBLE_OWNED"}


@pytest.mark.parametrize("case", [SPLIT, FROM_START])
def test_calls_show_a_split_though_no_member_answers(case):
    """A collector whose account may not ask the members knows no less than none: their pulls show their shares."""
    conclusions = concluded_of(changed_events(case, "both", lambda event, _: without_answer(event, 16)))
    last = {one.code: one for one in conclusions.open_at_end()}
    assert (last[CODE].sub_cause, last[CODE].client_id) == ("NAME_SERVERS", TWO)
    assert last["QUEUE_DOUBLE_OWNED"].parent == last[CODE].incident_id


@pytest.mark.parametrize("source", ["poll", "both"])
def test_what_the_split_leads_to_is_shown_under_it(source):
    found = concluded(SPLIT, source)
    by_id = {one.incident_id: one for one in found.open_at_end()}
    parents = {(one.code, by_id[one.parent].code) for one in by_id.values() if one.parent is not None}
    assert parents == {
        ("QUEUE_DOUBLE_OWNED", CODE),
        ("QUEUE_UNASSIGNED", CODE),
        ("QUEUE_STALLED", "QUEUE_UNASSIGNED"),
        ("LAG_GROWTH", "QUEUE_STALLED"),
    }


@pytest.mark.parametrize("source", ["poll", "both"])
def test_a_collector_whose_name_server_lost_a_broker_blames_no_client(source):
    """Until 200 s both clients are right, then the second one uses that name server, too."""
    conclusions = concluded(PARTIAL, source)
    assert conclusions.transitions("ASSIGNMENT_MISMATCH") == []
    first = conclusions.transitions(CODE)[0]
    assert (first.sub_cause, first.severity, first.client_id) == ("COLLECTOR_ROUTE", "warning", None)
    assert evidence(conclusions)["collector_lacks"] == "broker-b"
    last = conclusions.transitions(CODE)[-1]
    assert (last.sub_cause, last.severity, last.client_id) == ("NAME_SERVERS", "critical", TWO)
    assert evidence(conclusions, -1)["collector_lacks"] == "broker-b"
    assert roots(conclusions) == {CODE}
    assert {one.expected_owner for name, one in conclusions.queues().items() if name.startswith("Orders")} == {None}
    coverage = TelemetryCoverage.model_validate_json(conclusions.group().coverage)
    assert coverage.routes_incomplete == ("Orders: broker-b",)
    assert "the collector's route lacks a broker (Orders: broker-b)" in coverage_of(coverage)


def test_a_collector_that_does_not_know_the_broker_blames_no_client():
    """Its name server does not list the broker, so it is never asked: only the members' answers name its queues."""

    def unknown(event, _):
        return None if getattr(event, "broker", "") == "broker-b" else event

    conclusions = concluded_of(changed_events(PARTIAL, "poll", unknown))
    assert conclusions.transitions("ASSIGNMENT_MISMATCH") == []
    assert [one.sub_cause for one in conclusions.transitions(CODE)] == ["COLLECTOR_ROUTE", "NAME_SERVERS"]
    assert roots(conclusions) == {CODE}


def test_a_collector_that_loses_a_broker_later_blames_no_client():
    route = with_route((0, "a0 a1 a2 a3 b0 b1 b2 b3"), (200, "a0 a1 a2 a3"))
    found = concluded_of(changed_events(PARTIAL, "poll", route, having((0, WHOLE))))
    assert found.transitions("ASSIGNMENT_MISMATCH", "QUEUE_DOUBLE_OWNED", "REBALANCE_STALLED") == []
    assert {one.sub_cause for one in found.transitions(CODE)} == {"COLLECTOR_ROUTE"}


def test_a_route_that_is_complete_again_names_the_expected_owners():
    route = with_route((0, "a0 a1 a2 a3"), (300, "a0 a1 a2 a3 b0 b1 b2 b3"))
    conclusions = concluded_of(changed_events(PARTIAL, "poll", route, having((0, WHOLE))))
    assert [one.transition for one in conclusions.transitions(CODE)] == ["OPENED", "RESOLVED"]
    assert conclusions.queues()["Orders@broker-b:3"].expected_owner == TWO
    assert msgspec.json.decode(conclusions.group().coverage)["routes_incomplete"] == []


def test_a_topic_that_left_a_broker_is_no_incomplete_route():
    """A near miss: the broker still reports the queues, but the clients follow the route within 50 s."""
    route = with_route((0, "a0 a1 a2 a3 b0 b1 b2 b3"), (200, "a0 a1 a2 a3"))
    shares = having((0, WHOLE), (230, {ONE: "a0 a1", TWO: "b0 b1 b2 b3"}), (250, {ONE: "a0 a1", TWO: "a2 a3"}))
    found = concluded_of(changed_events(PARTIAL, "poll", route, shares))
    assert found.transitions(CODE, "ASSIGNMENT_MISMATCH") == []
    assert found.queues()["Orders@broker-a:3"].expected_owner == TWO


def test_a_client_that_kept_the_queues_of_a_removed_broker_is_behind():
    """A near miss: the other one divides the route of the collector, so that is right."""
    route = with_route((0, "a0 a1 a2 a3 b0 b1 b2 b3"), (200, "a0 a1 a2 a3"))
    shares = having((0, WHOLE), (230, {ONE: "a0 a1", TWO: "b0 b1 b2 b3"}))
    found = concluded_of(changed_events(PARTIAL, "poll", route, shares))
    assert {(one.sub_cause, one.severity) for one in found.transitions(CODE)} == {("", "info")}


def test_a_collector_and_a_client_that_lack_a_broker_from_the_start():
    conclusions = concluded_of(changed_events(PARTIAL, "poll", having((0, WITHOUT_B))))
    assert evidence(conclusions)["who"] == TWO
    assert evidence(conclusions)["collector_lacks"] == "broker-b"
    assert roots(conclusions) == {CODE}


def test_all_members_may_use_the_name_server_that_lacks_the_broker():
    conclusions = concluded_of(changed_events(SPLIT, "poll", having((0, WHOLE), (200, {ONE: "a0 a1", TWO: "a2 a3"}))))
    assert evidence(conclusions)["who"] == f"{ONE}, {TWO}"
    assert conclusions.transitions(CODE)[0].client_id is None
    assert roots(conclusions) == {CODE}


def test_the_split_of_another_strategy_is_found():
    circle = "AllocateMessageQueueAveragelyByCircle"
    shares, route = {ONE: "a0 a2 b1 b3", TWO: "b1 b3"}, with_route((0, "a0 a1 a2 b0 b1 b2 b3"))
    found = concluded_of(changed_events(SPLIT, "poll", route, having((0, shares), strategy=circle)))
    assert evidence(found)["who"] == TWO
    assert evidence(found)["route_lacks"] == "broker-a"


def test_a_split_that_is_repaired_is_resolved_with_what_it_explained():
    found = concluded_of(changed_events(SPLIT, "poll", having((0, WHOLE), (200, WITHOUT_B), (450, WHOLE))))
    assert [one.transition for one in found.transitions(CODE)] == ["OPENED", "RESOLVED"]
    assert [one.code for one in found.open_at_end() if one.code in {"QUEUE_DOUBLE_OWNED", "QUEUE_UNASSIGNED"}] == []


def test_another_share_for_50_s_is_a_near_miss():
    found = concluded_of(changed_events(SPLIT, "poll", having((0, WHOLE), (200, WITHOUT_B), (250, WHOLE))))
    assert found.transitions(CODE) == []


@pytest.mark.parametrize("share", ["a3", "a0 a1 b0", "a2 a3 b0"])
def test_a_share_of_no_route_names_no_name_server(share):
    """A near miss: what the second client has follows from no list of brokers."""
    found = concluded_of(changed_events(SPLIT, "poll", having((0, WHOLE), (200, {ONE: "a0 a1 a2 a3", TWO: share}))))
    assert found.transitions(CODE) == []


def test_a_client_that_does_not_reach_a_broker_is_no_split():
    """A near miss: its queues of other brokers are those of the whole route."""
    circle = "AllocateMessageQueueAveragelyByCircle"
    whole = {ONE: "a0 a2 b0 b2", TWO: "a1 a3 b1 b3"}
    cut_off = whole | {TWO: "a1 a3"}
    found = concluded_of(changed_events(SPLIT, "poll", having((0, whole), (200, cut_off), strategy=circle)))
    assert found.transitions(CODE) == []
    assert "QUEUE_UNASSIGNED" in roots(found)


def test_a_topic_that_grows_to_a_broker_is_a_near_miss():
    """Each client sees the new route at its next query, within 30 s, and rebalances within 20 s."""
    route = with_route((0, "a0 a1 a2 a3"), (200, "a0 a1 a2 a3 b0 b1 b2 b3"))
    shares = having((0, {ONE: "a0 a1", TWO: "a2 a3"}), (210, WITHOUT_B), (260, WHOLE))
    assert concluded_of(changed_events(SPLIT, "poll", route, shares)).transitions(CODE) == []


def test_a_client_that_never_sees_a_new_broker_is_a_split_in_the_end():
    route = with_route((0, "a0 a1 a2 a3"), (200, "a0 a1 a2 a3 b0 b1 b2 b3"))
    shares = having((0, {ONE: "a0 a1", TWO: "a2 a3"}), (210, WITHOUT_B))
    found = concluded_of(changed_events(SPLIT, "poll", route, shares))
    assert [(one.sub_cause, one.severity) for one in found.transitions(CODE)] == [("NAME_SERVERS", "critical")]


@pytest.mark.parametrize("source", ["poll", "both"])
def test_a_new_broker_that_all_clients_see_late_is_no_incident(source):
    """The clients see the route after two minutes: what is to be told is that they skipped messages."""
    found = concluded("13-skipped-by-expansion", source)
    assert {one.code for one in found.transitions() if one.severity != "info"} == {"MESSAGES_STRANDED"}


@pytest.mark.parametrize(
    "late", [{ONE: "a0 a1", TWO: "a2 a3"}, WITHOUT_B], ids=["all-clients-lack-it", "one-client-lacks-it"]
)
def test_what_a_new_broker_that_clients_lack_leads_to_waits_for_its_cause(late):
    route = with_route((0, "a0 a1 a2 a3"), (200, "a0 a1 a2 a3 b0 b1 b2 b3"))
    conclusions = concluded_of(
        changed_events(SPLIT, "poll", route, having((0, {ONE: "a0 a1", TWO: "a2 a3"}), (210, late)))
    )
    waits = conclusions.transitions("QUEUE_UNASSIGNED", "ASSIGNMENT_MISMATCH", "REBALANCE_STALLED")
    assert {one.absorbed for one in waits} == {True}
    assert all(320 <= conclusions.seconds(one) <= 345 for one in conclusions.transitions(CODE))
    assert roots(conclusions) == {CODE}


@pytest.mark.parametrize("share", ["a3", "a2 a3 b0"])
def test_what_no_route_explains_waits_for_nothing(share):
    """A near miss: queues of the new broker stay without an owner, and no list of brokers says why."""
    route = with_route((0, "a0 a1 a2 a3"), (200, "a0 a1 a2 a3 b0 b1 b2 b3"))
    shares = having((0, {ONE: "a0 a1", TWO: "a2 a3"}), (210, {ONE: "a0 a1 a2 a3", TWO: share}))
    found = concluded_of(changed_events(SPLIT, "poll", route, shares))
    assert found.transitions(CODE) == []
    assert 260 < found.seconds(found.transitions("QUEUE_UNASSIGNED")[0]) < 285


def test_what_waited_for_a_cause_that_is_over_is_judged_as_before():
    """The second client takes one queue of the new broker: it has seen it, and the others stay without an owner."""
    route = with_route((0, "a0 a1 a2 a3"), (200, "a0 a1 a2 a3 b0 b1 b2 b3"))
    shares = having((0, {ONE: "a0 a1", TWO: "a2 a3"}), (300, {ONE: "a0 a1 a2 a3", TWO: "b0"}))
    found = concluded_of(changed_events(SPLIT, "poll", route, shares))
    assert found.transitions(CODE) == []
    opened = [one for one in found.transitions("QUEUE_UNASSIGNED") if one.transition == "OPENED"]
    assert {one.subject for one in opened} == {f"Orders@broker-b:{queue}" for queue in (1, 2, 3)}
    assert {one.parent for one in opened} == {None}


def test_the_broker_that_a_client_lacks_does_not_list_it():
    """The client sends no heartbeat to a broker that its route lacks, and others that ask that broker take its share.

    So the first client alternates: it asks either broker for the members.
    """

    def listed(event, second):
        if isinstance(event, ConsumerConnection) and event.broker == "broker-b" and second >= 330:
            return changed(event, connections=tuple(c for c in event.connections if c.client_id == ONE))
        return event

    alone = WITHOUT_B | {ONE: "a0 a1 a2 a3 b0 b1 b2 b3"}
    turns = [(float(at), alone if at % 40 else WITHOUT_B) for at in range(340, 600, 20)]
    conclusions = concluded_of(changed_events(SPLIT, "poll", listed, having((0, WHOLE), (200, WITHOUT_B), *turns)))
    assert [one.transition for one in conclusions.transitions(CODE)] == ["OPENED"]
    assert "CID_VIEW_SPLIT" in {one.code for one in conclusions.open_at_end()}
    assert roots(conclusions) == {CODE}


def test_a_member_that_does_not_rebalance_is_no_split():
    """A near miss: the third member left at 200 s, and the first one keeps its third of the queues.

    By chance that is its half of a route without broker-c.
    """
    three, thirds = "10.0.0.3@c3", {ONE: "a0 a1", TWO: "b0 b1", "10.0.0.3@c3": "c0 c1"}

    def listed(event, second):
        if not isinstance(event, ConsumerConnection) or second >= 200:
            return event
        third = changed(event.connections[-1], client_id=three, channel="10.0.0.3:40002")
        return changed(event, connections=(*event.connections, third))

    route = with_route((0, "a0 a1 b0 b1 c0 c1"))
    events = changed_events(SPLIT, "poll", listed, route)
    start = events[0].time
    answers = [e for e in events if isinstance(e, ConsumerRunningInfo) and e.client_id == TWO]
    thirds_of = having((0, thirds), (220, {ONE: "a0 a1", TWO: "b1 c0 c1"}))
    events += [changed(e, client_id=three) for e in answers if e.time < start + 200_000]
    found = concluded_of(numbered(thirds_of(e, (e.time - start) / 1000) for e in events))
    assert found.transitions(CODE) == []
    assert "QUEUE_UNASSIGNED" in roots(found)


def test_an_incomplete_route_is_known_whatever_the_strategy():
    found = concluded_of(changed_events(PARTIAL, "poll", having((0, WHOLE), strategy="com.example.OurStrategy")))
    assert {one.sub_cause for one in found.transitions(CODE)} == {"COLLECTOR_ROUTE"}


def test_a_strategy_that_every_client_refuses_shows_no_split():
    """No broker is in a room: each client throws, and keeps what it has."""
    rooms = {"broker_deploy_in": "^(room[0-9])", "consumer_deploy_in": "(.)"}
    policy = Policy(allocate_strategy="MACHINE_ROOM_NEARBY-AVG", **rooms)
    assert concluded_of(changed_events(SPLIT, "poll"), policy).transitions(CODE) == []


def test_a_route_stays_incomplete_while_the_broker_does_not_answer():
    def failing(event, second):
        if second < 300 or getattr(event, "broker", "") != "broker-b":
            return event
        if isinstance(event, ConsumeStats | ConsumeTimeSpan):
            return None
        if isinstance(event, ConsumerConnection):
            return changed(
                event, connections=None, subscriptions=(), error=RpcError(code=UNREACHABLE, remark="timeout")
            )
        return event

    found = concluded_of(changed_events(PARTIAL, "poll", failing, having((0, WHOLE))))
    assert [one.transition for one in found.transitions(CODE)] == ["OPENED"]
    assert found.transitions("ASSIGNMENT_MISMATCH") == []
