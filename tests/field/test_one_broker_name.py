"""Two brokers register under one name: one incident of the cluster, and nothing about the members."""

import pytest

from rebalance_model.observe.events import BrokerStatus
from tests.support.field import changed, changed_events, concluded, concluded_of
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


def test_restarts_one_after_the_other_are_none_and_lose_no_member():
    """Each answer has a boot time of its own; who is expected back after one restart is so after the next."""

    def restarted(event, _):
        is_answer = isinstance(event, BrokerStatus) and event.boot_time is not None
        return changed(event, boot_time=event.time - 10_000) if is_answer else event

    assert concluded_of(changed_events(CASE, "poll", restarted)).transitions(MINE) == []


def boots(*times: int, every: int = 30) -> Trace:
    """A collector's answers with these boot times, each for so many seconds."""
    trace = Trace()
    for number, boot in enumerate(times):
        for at in range(number * every, (number + 1) * every, 10):
            now = START + at * 1_000
            common = trace._of_collector(now)
            trace._observe(BrokerStatus(asked=now, broker="broker-a", boot_time=boot, **common))
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
