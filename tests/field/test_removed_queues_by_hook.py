"""Queues that a topic has lost, by hooks alone: they see no route, only that nobody reads these queues any more.

alibaba/rocketmq#316, #204; apache/rocketmq#1465: at 200 s 8 queues become 4. In 01 the listener of 4..7 hangs before.
"""

import msgspec
import pytest

from rebalance_model.observe.events import AnyEvent, HeartBeat, PullMessage, UnregisterClient, UpdateConsumerOffset
from rebalance_model.observe.group.ended_queues import WHY
from tests.support.field import Change, Concluded, changed, changed_events, concluded, concluded_of, events_of, numbered

HUNG, MOVING = "01-queues-removed", "01b-queues-removed-lag"


def stranded(conclusions: Concluded) -> list[tuple[str, str, int]]:
    """Return transition, sub-cause and number of messages of MESSAGES_STRANDED."""
    return [
        (t.transition, t.sub_cause, msgspec.json.decode(t.evidence)["messages"])
        for t in conclusions.transitions("MESSAGES_STRANDED")
    ]


def stalls(conclusions: Concluded) -> list[tuple[str, str, str | None]]:
    """Return transition, sub-cause and resolution of QUEUE_STALLED, each once."""
    rows = [(t.transition, t.sub_cause, t.resolution) for t in conclusions.transitions("QUEUE_STALLED")]
    return list(dict.fromkeys(rows))


def with_ids(change_id) -> Change:
    """Let the topic's queues have other ids."""

    def change(event: AnyEvent, at: float) -> AnyEvent:
        is_of_queue = isinstance(event, PullMessage | UpdateConsumerOffset) and event.topic == "Orders"
        return changed(event, queue_id=change_id(event.queue_id)) if is_of_queue else event

    return change


def read_from(name: str, begin: float, *queue_ids: int) -> list[AnyEvent]:
    """Return a case in which these of the removed queues are read again, from their commit on, as those beside them."""
    events, start, added = events_of(name, "hook"), 0, []
    start = events[0].time
    for event in events:
        if not isinstance(event, PullMessage | UpdateConsumerOffset) or event.topic != "Orders":
            continue
        if (event.time - start) / 1000 >= begin and event.queue_id + 4 in queue_ids:
            added.append(changed(event, queue_id=event.queue_id + 4))
    return numbered([*events, *added])


@pytest.mark.parametrize(("name", "at_least"), [(HUNG, 4 * 130), (MOVING, 4 * 32)])
def test_queues_that_nobody_reads_are_named_once_with_their_messages(name, at_least):
    conclusions = concluded(name, "hook")
    [(transition, cause, messages)] = stranded(conclusions)
    assert (transition, cause) == ("OPENED", "NOT_READ")
    assert messages >= at_least
    assert [t.code for t in conclusions.open_at_end()] == ["MESSAGES_STRANDED"]
    row = conclusions.queues()["Orders@broker-a:5"]
    assert (row.status, row.status_reason) == ("UNKNOWN", WHY["NOT_READ"])
    assert conclusions.group().health == "WARN"


def test_a_stall_of_such_a_queue_blames_no_listener_and_ends():
    assert stalls(concluded(HUNG, "hook")) == [
        ("OPENED", "LISTENER_BLOCKED", None),
        ("RESOLVED", "LISTENER_BLOCKED", WHY["NOT_READ"]),
    ]


def test_two_of_eight_queues_are_removed():
    conclusions = concluded_of(read_from(HUNG, 200, 4, 5))
    [(_, cause, messages)] = stranded(conclusions)
    assert (cause, messages) == ("NOT_READ", 2 * 139)
    assert {t.subject for t in conclusions.open_at_end()} == {""}


def test_queues_that_are_read_again_are_no_longer_stranded():
    """The recovery: the read queues are restored at 450 s."""
    conclusions = concluded_of(read_from(HUNG, 450, 4, 5, 6, 7))
    assert [transition for transition, *_ in stranded(conclusions)] == ["OPENED", "RESOLVED"]
    assert conclusions.queues()["Orders@broker-a:5"].status == "OK"
    assert conclusions.group().health == "OK"


def test_queues_below_those_that_are_read_were_not_removed():
    """The near miss: a topic loses its highest ids. Members leave these out, so that messages wait for a member."""
    found = concluded_of(changed_events(HUNG, "hook", with_ids(lambda queue_id: 7 - queue_id)))
    assert stranded(found) == []
    assert {(t.transition, t.sub_cause) for t in found.open_at_end()} == {("RECLASSIFIED", "UNASSIGNED")}


def test_queues_of_a_member_that_left_just_then_were_not_removed():
    """The near miss: the next owner should take them, and does not."""
    events = events_of(HUNG, "hook")
    leaver = next(e for e in reversed(events) if isinstance(e, HeartBeat))
    gone = UnregisterClient(
        **{
            name: getattr(leaver, name)
            for name in ("cluster", "broker", "source", "source_id", "group", "client_id", "channel")
        },
        time=events[0].time + 195_000,
        seq=0,
    )
    back = changed(next(e for e in events if isinstance(e, HeartBeat) and e.client_id == leaver.client_id))
    back = changed(back, time=gone.time + 2_000)
    assert stranded(concluded_of(numbered([*events, gone, back]))) == []


def test_a_topic_without_a_pull_of_any_queue_lost_none():
    """The near miss: producers and consumers of the whole topic rest, or its clients can't pull at all."""

    def rests(event: AnyEvent, at: float) -> AnyEvent | None:
        return None if isinstance(event, PullMessage | UpdateConsumerOffset) and at >= 200 else event

    assert stranded(concluded_of(changed_events(HUNG, "hook", rests))) == []
