"""Green without data: what telemetry does not show is not OK (issue 32, G)."""

import pytest

from rebalance_model.observe.events import AnyEvent, ConsumeStats
from tests.support.field import changed, concluded, concluded_of, events_of

RETRY = "%RETRY%orders-group@broker-a:0"


def with_retry_offsets(waiting: int, *, consumed_from: float = 600) -> list[AnyEvent]:
    """Return the case's polls with at most so many messages in the retry topic, all consumed from a time on."""
    events = events_of("09-retry-stuck", "poll")
    begin = events[0].time

    def limited(event: ConsumeStats) -> ConsumeStats:
        is_consumed = event.time - begin >= consumed_from * 1000
        queues = tuple(
            changed(
                row,
                broker_offset=min(row.broker_offset, 110 + waiting),
                consumer_offset=min(row.broker_offset, 110 + waiting) if is_consumed else row.consumer_offset,
            )
            if row.mq.is_retry
            else row
            for row in event.queues or ()
        )
        return changed(event, queues=queues)

    return [limited(one) if isinstance(one, ConsumeStats) and one.queues is not None else one for one in events]


@pytest.mark.parametrize("source", ["poll", "both"])
@pytest.mark.parametrize("case", ["09-retry-stuck", "09b-retry-nobody"])
def test_messages_to_be_tried_again_that_nobody_consumes_are_a_warning(case, source):
    conclusions = concluded(case, source)
    assert [(one.code, one.sub_cause, one.severity, one.subject) for one in conclusions.open_at_end()] == [
        ("QUEUE_STALLED", "RETRY_NOT_CONSUMED", "warning", RETRY)
    ]
    assert conclusions.group().health == "WARN"


@pytest.mark.parametrize(("waiting", "opens"), [(400, True), (20, True), (1, True), (0, False)])
def test_a_retry_queue_whose_commit_stands_is_reported(waiting, opens):
    assert bool(concluded_of(with_retry_offsets(waiting)).transitions("QUEUE_STALLED")) is opens


def test_a_retry_queue_that_is_consumed_again_is_resolved():
    found = concluded_of(with_retry_offsets(400, consumed_from=300))
    assert [one.transition for one in found.transitions("QUEUE_STALLED")] == ["OPENED", "RESOLVED"]
    assert found.open_at_end() == []


def test_by_hook_a_broker_without_pull_or_commit_is_unknown():
    conclusions = concluded("14-no-pull-after-restart", "hook")
    reason = "no pull or commit is seen at broker-b"
    assert (conclusions.group().health, conclusions.group().health_reason) == ("UNKNOWN", reason)
    status = {name: queue.status for name, queue in conclusions.queues().items() if name.startswith("Orders")}
    assert status == {
        "Orders@broker-a:0": "OK",
        "Orders@broker-a:1": "OK",
        "Orders@broker-b:0": "UNKNOWN",
        "Orders@broker-b:1": "UNKNOWN",
    }


def test_by_hook_a_group_whose_pulls_come_is_ok():
    """Without messages a client pulls on, and commits what it has committed."""
    found = concluded("09-retry-stuck", "hook")
    assert (found.group().health, found.group().health_reason) == ("OK", "")


def test_by_hook_a_short_pause_is_not_unknown():
    """Less than pullMaxIdleTime after the hook began to report again."""
    events = events_of("14-no-pull-after-restart", "hook")
    end = events[0].time + 250_000
    found = concluded_of([one for one in events if one.time < end])
    assert found.group().health_reason != "no pull or commit is seen at broker-b"


@pytest.mark.parametrize("source", ["poll", "both"])
def test_by_polls_the_pull_has_expired(source):
    found = concluded("14-no-pull-after-restart", source)
    opened = {one.subject for one in found.open_at_end() if one.code == "PULL_EXPIRED"}
    assert opened == {"Orders@broker-b:0", "Orders@broker-b:1"}
