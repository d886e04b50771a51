"""Two brokers register under one name: one incident of the cluster, and nothing about the members."""

import pytest

from rebalance_model.observe.effects import GroupSnapshot, IncidentTransition
from rebalance_model.observe.events import UNREACHABLE, BrokerStatus, ConsumerConnection, ConsumeStats, RpcError
from tests.support.field import changed, changed_events, concluded, concluded_of, events_of
from tests.support.trace import START, Trace

CASE = "16-two-brokers-one-name"
"""From 120 s on every other half minute the answers are another broker's (rocketmq#3991)."""
MINE = "BROKER_NAME_SHARED"


@pytest.mark.parametrize("source", ["poll", "both"])
def test_boot_times_that_alternate_are_one_incident_of_the_cluster(source):
    conclusions = concluded(CASE, source)
    independent = {(one.group, one.code, one.subject) for one in conclusions.open_at_end() if not one.absorbed}
    assert independent == {("", MINE, "broker-a")}
    [opened] = conclusions.transitions(MINE)
    assert (opened.severity, 150 <= conclusions.seconds(opened) <= 200) == ("critical", True)
    assert (conclusions.group().health, conclusions.group().health_reason) == ("BAD", MINE)


def with_a_group_of_its_own(starts_at):
    """Return a change: the other broker has the group, too, with members and offsets of its own."""
    answers = [one for one in events_of(CASE, "poll") if isinstance(one, ConsumerConnection | ConsumeStats)]
    listed = next(one.connections for one in answers if isinstance(one, ConsumerConnection))
    queues = next(one.queues for one in answers if isinstance(one, ConsumeStats))
    members = tuple(changed(one, client_id=f"test-{one.client_id}") for one in listed)
    rows = tuple(changed(one, broker_offset=7, consumer_offset=3) for one in queues)

    def change(event, at):
        if isinstance(event, ConsumerConnection) and not event.connections and at >= starts_at:
            return changed(event, connections=members, error=None)
        if isinstance(event, ConsumeStats) and not event.queues and at >= starts_at:
            return changed(event, queues=rows)
        return event

    return change


@pytest.mark.parametrize(("starts_at", "is_mixed"), [(180, False), (120, True)])
def test_answers_of_the_other_broker_do_not_enter_the_group(starts_at, is_mixed):
    """It is known as another one from its second time on (180 s): until then it may be the same after a restart."""
    conclusions = concluded_of(changed_events(CASE, "poll", with_a_group_of_its_own(starts_at)))
    groups = [one for one in conclusions.effects if isinstance(one, GroupSnapshot)]
    members = {member for one in groups if conclusions.seconds(one) > 180 for member in one.members}
    assert members
    assert not any(member.startswith("test-") for member in members)
    strange = {member for one in groups for member in one.members if member.startswith("test-")}
    assert bool(strange) == is_mixed
    assert [(one.code, one.group) for one in conclusions.open_at_end() if not one.absorbed] == [(MINE, "")]


def test_restarts_one_after_the_other_are_none_and_lose_no_member():
    """Each answer has a boot time of its own; who is expected back after one restart is so after the next."""

    def restarted(event, _):
        is_answer = isinstance(event, BrokerStatus) and event.boot_time is not None
        return changed(event, boot_time=event.time - 10_000) if is_answer else event

    assert concluded_of(changed_events(CASE, "poll", restarted)).transitions(MINE) == []


def boots(*times: int | None, every: int = 30) -> Trace:
    """A collector's answers with these boot times, each for so many seconds; None: no answer."""
    trace = Trace()
    for number, boot in enumerate(times):
        for at in range(number * every, (number + 1) * every, 10):
            now = START + at * 1_000
            common = trace._of_collector(now)
            error = RpcError(code=UNREACHABLE) if boot is None else None
            trace._observe(BrokerStatus(asked=now, broker="broker-a", boot_time=boot, error=error, **common))
    return trace


@pytest.mark.parametrize(
    ("times", "said"),
    [((1, 2, 1, 2), True), ((1, 2, 3, 1, 2), True), ((1, 2, 3, 4), False), ((1, 2, 1), False), ((1, 1, 1), False)],
)
@pytest.mark.parametrize("every", [10, 120])
def test_it_takes_two_returns_of_a_former_boot_time(times, said, every):
    assert bool(boots(*times, every=every).incidents(MINE)) == said


def test_it_ends_when_none_has_come_back_for_ten_minutes():
    trace = boots(1, 2, 1, 2)
    assert [what for _, what, _ in trace.tick(90 + 601).incidents(MINE)] == ["OPENED", "RESOLVED"]


def test_one_of_them_that_stopped_is_no_incident_of_its_own():
    """The name servers still list the address of the one that registered last."""
    unreachable, alone = (
        [
            one
            for one in boots(*times).effects
            if isinstance(one, IncidentTransition) and one.code == "BROKER_UNREACHABLE"
        ]
        for times in ((1, 2, 1, 2, None), (1, 2, 2, 2, None))
    )
    assert ([one.absorbed for one in unreachable], [one.absorbed for one in alone]) == ([True], [False])
