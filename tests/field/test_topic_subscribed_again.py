"""A topic that members left and subscribe again: it has waited for a client only since then (issue 32, A and C)."""

from functools import lru_cache

import pytest

from rebalance_model.observe.events import (
    AnyEvent,
    ConsumerConnection,
    ConsumerRunningInfo,
    LockBatchMq,
    PullMessage,
    QueryConsumerOffset,
    UpdateConsumerOffset,
)
from simulation import scenario
from simulation.cluster import START
from tests.support.field import SOURCES, Concluded, changed, changed_events, concluded_of, numbered
from tests.support.folding import folded
from tests.support.simulated import simulate

LEFT = 100
"""When the only member leaves; its successor subscribes another topic from 30 s after; seconds."""
STALLS = ("QUEUE_STALLED", "ORDERED_QUEUE_STUCK", "QUEUE_UNASSIGNED", "PULL_REFUSED", "LAG_GROWTH")
_TAKES = (PullMessage, QueryConsumerOffset, UpdateConsumerOffset, LockBatchMq)


@lru_cache
def subscribed_again(source: str, away: int, *, ordered: bool = False, per_second: float = 6) -> list[AnyEvent]:
    """Return the telemetry of a topic that is subscribed again after a time without a member for it; seconds."""
    orders = {"name": "Orders", "queues": 2, "messages_per_second": per_second}
    other = {"name": "Other", "queues": 2, "messages_per_second": 1}
    next_one = {"do": "join", "at": LEFT + 30, "who": "d", "group": "g", "topics": ["Other"], "lasts": away - 32}
    both = {"do": "join", "at": LEFT + away, "who": "e", "group": "g", "topics": ["Orders", "Other"]}
    return _telemetry(
        source,
        topics=[orders, other],
        groups=[{"name": "g", "called": "c", "topics": ["Orders"], "ordered": ordered, "consumers": 1}],
        story=[{"do": "leave", "at": LEFT, "who": "c-1"}, next_one, both],
    )


def _telemetry(source: str, **described: object) -> list[AnyEvent]:
    made = scenario.read({"title": "again", "minutes": 9, "brokers": [{"name": "broker-a"}], **described})
    return simulate(made, hook=source != "poll", poll=source != "hook").events


def opened(events: list[AnyEvent], *codes: str) -> list[tuple[str, str, int]]:
    """Return code, sub-cause and time, in seconds after the start, of each incident of these codes."""
    found = Concluded(folded(events), START).transitions(*codes)
    return [(one.code, one.sub_cause, (one.time - START) // 1000) for one in found if one.transition == "OPENED"]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(("away", "per_second"), [(232, 6), (160, 0.1), (85, 6)])
def test_nothing_opens_when_a_topic_is_subscribed_again(source, ordered, away, per_second):
    """Queues without messages, or with those of the time without a member; 85: no member had it for 55 s."""
    assert opened(subscribed_again(source, away, ordered=ordered, per_second=per_second), *STALLS) == []


@pytest.mark.parametrize("source", ["hook", "both"])
@pytest.mark.parametrize("code", [24, 25])
@pytest.mark.parametrize("away", [232, 160])
def test_nothing_opens_while_its_pulls_are_refused_until_a_heartbeat(source, code, away):
    """The broker learns the subscription by the client's next heartbeat, up to 30 s later."""
    back = START + (LEFT + away) * 1000

    def refused(event: AnyEvent) -> AnyEvent | None:
        if not isinstance(event, PullMessage | UpdateConsumerOffset) or not back <= event.time < back + 31_000:
            return event
        return changed(event, code=code, commit_offset=-1) if isinstance(event, PullMessage) else None

    events = [now for one in subscribed_again(source, away) if (now := refused(one)) is not None]
    assert opened(numbered(events), *STALLS) == []


@pytest.mark.parametrize(("source", "code"), [("hook", "QUEUE_STALLED"), ("poll", "QUEUE_UNASSIGNED")])
def test_a_queue_that_stays_unassigned_is_found_after_its_usual_time(source, code):
    """The client subscribes the topic, and takes none of its queues."""
    away = 80
    back = START + (LEFT + away) * 1000

    def untaken(event: AnyEvent) -> AnyEvent | None:
        if event.time < back:
            return event
        if isinstance(event, ConsumerRunningInfo):
            return changed(event, queues=tuple(queue for queue in event.queues or () if queue.mq.topic != "Orders"))
        return None if isinstance(event, _TAKES) and getattr(event, "topic", "") == "Orders" else event

    events = [now for one in subscribed_again(source, away) if (now := untaken(one)) is not None]
    found = opened(numbered(events), code)
    assert len(found) == 2
    assert all(LEFT + away + 40 < at < LEFT + away + 180 for _, _, at in found)


def test_a_topic_that_was_left_before_the_first_look_is_consumed_again():
    """The group is first seen without members, so its old topic has ended; then a member hangs in a message of it."""
    events = _telemetry(
        "poll",
        topics=[
            {"name": "Orders", "queues": 2, "messages_per_second": 6},
            {"name": "Other", "queues": 2, "messages_per_second": 1},
        ],
        groups=[{"name": "g", "called": "c", "topics": ["Orders"], "consumers": 0}],
        story=[
            {"do": "collector-away", "at": 3, "lasts": 90},
            {"do": "join", "at": 5, "who": "former", "group": "g", "lasts": 60},
            {"do": "join", "at": 110, "who": "next", "group": "g", "topics": ["Other"], "lasts": 60},
            {"do": "join", "at": 250, "who": "again", "group": "g"},
            {"do": "hang", "at": 300, "who": "again"},
        ],
    )
    assert {why for _, why, _ in opened(events, "QUEUE_STALLED")} == {"LISTENER_HUNG"}
    assert len(opened(events, "QUEUE_STALLED")) == 2


def test_a_topic_that_tables_lack_in_turn_is_not_left():
    """Members with different topics overwrite the broker's table: the stall of a queue goes on meanwhile."""

    def in_turn(event: AnyEvent, second: float) -> AnyEvent:
        if isinstance(event, ConsumerRunningInfo):
            return changed(event, subscriptions=())
        if isinstance(event, ConsumerConnection) and second // 30 % 2:
            others = (
                changed(sub, topic="Other" if sub.topic == "Orders" else sub.topic) for sub in event.subscriptions
            )
            return changed(event, subscriptions=tuple(others))
        return event

    found = concluded_of(changed_events("03b-pull-refused-ordered", "poll", in_turn))
    assert len([one for one in found.open_at_end() if one.code == "ORDERED_QUEUE_STUCK"]) == 4
