"""Members that work and do not answer GET_CONSUMER_RUNNING_INFO: clients in Go, C++ and others without that request."""

import pytest

from rebalance_model.observe.events import ConsumerRunningInfo, ConsumeStats, RpcError
from streaming.queries.results import TelemetryCoverage
from tests.support.field import changed, concluded, concluded_of, events_of

CASES = ["11-no-307", "11b-go-307-code1", "11c-go-307-code1-ordered", "11d-never-307"]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("source", ["poll", "hook", "both"])
def test_a_member_that_works_without_the_request_raises_no_alarm(name, source):
    """rocketmq-client-go#301: a client that answers "not supported", or never, while its commits advance."""
    found = concluded(name, source)
    assert {one.code for one in found.transitions()} <= {"DUPLICATE_CONSUMPTION"}  # of the made-up start of the hook


@pytest.mark.parametrize("name", CASES)
def test_by_polls_alone_the_group_is_unknown_and_says_who_does_not_report(name):
    group = concluded(name, "poll").group()
    assert group.health == "UNKNOWN"
    assert group.health_reason == "no readable answer from 10.0.0.1@c1 and 1 more"
    assert "10.0.0.1@c1" in group.coverage
    assert "QUEUE_UNASSIGNED" in group.coverage


@pytest.mark.parametrize("name", CASES)
def test_queues_that_a_hook_shows_healthy_are_ok(name):
    found = concluded(name, "both")
    assert found.group().health == "OK"
    assert {queue.status for queue in found.queues().values()} == {"OK"}


def failed(event, code, remark):
    """Return a client's answer as an error."""
    return changed(event, error=RpcError(code=code, remark=remark), orderly=None, queues=None, pop_queues=(),
                   properties={}, subscriptions=(), strategy="", start_time=0)  # fmt: skip


def with_errors(code, remark, first, last):
    """Return a healthy case in which the answers of one member, by their number, are errors."""
    number = 0
    for event in events_of("16-assign-all", "poll"):
        if isinstance(event, ConsumerRunningInfo) and event.client_id == MEMBER:
            number += 1
            yield failed(event, code, remark) if first <= number <= last else event
        else:
            yield event


MEMBER = "10.0.0.1@c1"


@pytest.mark.parametrize(
    ("code", "remark", "is_unresponsive"),
    [
        (3, "request type not supported", False),
        (1, "The Consumer Group <orders-group> not exist in this consumer", False),
        (1, "The Consumer <g> <c> Version <V3_0_0> too low to finish, please upgrade it to V3_1_8", False),
        (-3, "the answer can't be read", False),
        (1, "invoke consumer <g> <c> Exception: RemotingSendRequestException", True),
        (1, "org.apache.rocketmq.acl.common.AclException: no permission", True),
        (16, "the account may not send this request", False),
        (207, "consumer <g> <c> Timeout", True),
        (-1, "no connection", False),  # the broker's silence
    ],
)
def test_only_what_the_broker_says_of_it_makes_a_member_unresponsive(code, remark, is_unresponsive):
    found = concluded_of(with_errors(code, remark, 3, 10**6))
    assert {one.client_id for one in found.transitions("CLIENT_UNRESPONSIVE")} == (
        {MEMBER} if is_unresponsive else set()
    )


def test_a_member_that_never_answered_and_does_nothing_is_unresponsive():
    """A near miss of 11d: no commit advances, so nothing shows that anybody lives."""
    first = {}
    events = []
    for event in events_of("11d-never-307", "poll"):
        if isinstance(event, ConsumeStats):
            event = changed(event, queues=first.setdefault(event.broker, event.queues))  # noqa: PLW2901  the altered event takes its place
        events.append(event)
    found = concluded_of(events)
    assert {one.client_id for one in found.transitions("CLIENT_UNRESPONSIVE")} == {"10.0.0.1@c1", "10.0.0.2@c2"}


def test_a_member_that_answers_again_is_known_again():
    conclusions = concluded_of(with_errors(3, "?", 3, 6))
    assert conclusions.transitions("CLIENT_UNRESPONSIVE") == []
    assert '"unreadable"' not in conclusions.group().coverage or '"unreadable":[]' in conclusions.group().coverage
    assert conclusions.group().health == concluded("16-assign-all", "poll").group().health


def test_coverage_counts_the_members_that_do_not_report():
    """A queue without a known owner may be theirs: it is not shown as unassigned."""
    coverage = TelemetryCoverage.model_validate_json(concluded("11-no-307", "poll").group().coverage)
    assert (coverage.members_mute, coverage.owners_known) == (2, False)
    coverage = TelemetryCoverage.model_validate_json(concluded("11-no-307", "both").group().coverage)
    assert (coverage.members_mute, coverage.owners_known) == (2, True)
    coverage = TelemetryCoverage.model_validate_json(concluded("16-assign-all", "poll").group().coverage)
    assert (coverage.members_mute, coverage.owners_known) == (0, True)
