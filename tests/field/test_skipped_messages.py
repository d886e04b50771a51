"""A group that begins new queues at their newest offset: the messages that waited are skipped (issue 32, B 2)."""

import msgspec
import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import (
    AnyEvent,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    HeartBeat,
    PullMessage,
    QueryConsumerOffset,
    UpdateConsumerOffset,
)
from tests.support import field
from tests.support.field import Change, Concluded, changed, concluded, concluded_of
from tests.support.folding import Fold

CASE = "13-skipped-by-expansion"
CODE = "MESSAGES_STRANDED"
NEW = "broker-b"
"""The topic grows to this broker at 100 s; c2 takes its queues at 220 s."""


def concluded_with(source: str, *changes: Change) -> Concluded:
    """Return what is concluded of the case with changes."""
    return concluded_of(field.changed_events(CASE, source, *changes))


def is_new(topic: str, broker: str) -> bool:
    """Return whether a queue is one of the new ones."""
    return topic == "Orders" and broker == NEW


def stranded(conclusions: Concluded) -> list[tuple[str, str]]:
    """Return transition and sub-cause of MESSAGES_STRANDED."""
    return [(one.transition, one.sub_cause) for one in conclusions.transitions(CODE)]


def moved(by: int) -> Change:
    """Let the hook report other offsets of the new queues."""

    def change(event: AnyEvent, _: float) -> AnyEvent:
        if isinstance(event, PullMessage) and is_new(event.topic, event.broker):
            commit = event.commit_offset + by if event.commit_offset >= 0 else -1
            first, last = event.first_offset + by, event.last_offset + by
            return changed(event, first_offset=max(0, first), last_offset=max(0, last), commit_offset=commit)
        if isinstance(event, UpdateConsumerOffset) and is_new(event.topic, event.broker):
            return changed(event, offset=event.offset + by)
        return event

    return change


def offsets(
    *, until: float = 600, commit: int | None = None, pull: int | None = None, newest: int | None = None
) -> Change:
    """Let the broker answer other offsets of the new queues until then."""

    def change(event: AnyEvent, at: float) -> AnyEvent:
        if not isinstance(event, ConsumeStats) or event.queues is None or event.broker != NEW or at >= until:
            return event
        named = {"consumer_offset": commit, "pull_offset": pull, "broker_offset": newest}
        other = {name: value for name, value in named.items() if value is not None}
        rows = (changed(row, **other) if is_new(row.mq.topic, NEW) else row for row in event.queues)
        return changed(event, queues=tuple(rows))

    return change


def owner_answers(**other: int | None) -> Change:
    """Let the first answer of the new queues' owner show other positions."""

    def change(event: AnyEvent, at: float) -> AnyEvent:
        if not isinstance(event, ConsumerRunningInfo) or event.queues is None or at >= 225:
            return event
        rows = (changed(held, **other) if is_new(held.mq.topic, held.mq.broker) else held for held in event.queues)
        return changed(event, queues=tuple(rows))

    return change


def filtered(event: AnyEvent, _: float) -> AnyEvent:
    """Let the members filter by a tag."""
    if not isinstance(event, ConsumerRunningInfo) or event.subscriptions is None:
        return event
    return changed(event, subscriptions=tuple(changed(one, sub_string="paid") for one in event.subscriptions))


@pytest.mark.parametrize(("source", "start"), [("hook", 1209), ("both", 1209), ("poll", 1219)])
def test_messages_before_the_first_pull_are_one_warning_with_their_number(source, start):
    """apache/rocketmq#9307: 1,210 messages a queue of the new broker are never read."""
    conclusions = concluded(CASE, source)
    [incident] = conclusions.transitions(CODE)
    assert (incident.transition, incident.sub_cause, incident.severity) == ("OPENED", "SKIPPED", "warning")
    assert (incident.opened_at - conclusions.start) / 1000 == pytest.approx(236, abs=2)
    evidence = msgspec.json.decode(incident.evidence)
    assert evidence["queue_names"] == "Orders@broker-b:0,1,2,3"
    assert (evidence["messages"], evidence["begun_at_offset"]) == (4 * start, start)
    assert conclusions.group().health == "WARN"


@pytest.mark.parametrize(("by", "messages"), [(-1000, 4 * 209), (5000, 4 * 6209), (-1210, None)])
def test_by_hook_the_first_pull_decides(by, messages):
    """A reader that begins at 0 skips nothing."""
    opened = concluded_with("hook", moved(by)).transitions(CODE)
    assert [msgspec.json.decode(one.evidence)["messages"] for one in opened] == ([messages] if messages else [])


def test_by_polls_a_reader_without_a_commit_skipped_nothing_that_shows():
    """A lite-pull reader answers its last commit: it may have consumed everything before its first one."""

    def pulling_itself(event: AnyEvent, _: float) -> AnyEvent:
        if isinstance(event, ConsumerConnection):
            return changed(event, consume_type="CONSUME_ACTIVELY")
        if isinstance(event, ConsumerRunningInfo) and event.queues is not None:
            return changed(event, properties={**event.properties, "PROP_CONSUME_TYPE": "CONSUME_ACTIVELY"})
        return event

    consumed = owner_answers(commit_offset=0, cached_count=0, cached_min=0)
    uncommitted = offsets(commit=0, pull=6)
    assert stranded(concluded_with("poll", consumed, uncommitted)) == [("OPENED", "SKIPPED")]
    assert stranded(concluded_with("poll", consumed, uncommitted, pulling_itself)) == []


def test_a_stored_offset_is_no_skip():
    """The broker answers an offset (0): another group member, or a person, has set where to begin."""

    def stored(event: AnyEvent, _: float) -> AnyEvent:
        return changed(event, code=0) if isinstance(event, QueryConsumerOffset) else event

    assert stranded(concluded_with("hook", stored)) == []


def test_a_new_group_begins_at_the_newest_offset_as_it_wants():
    """CONSUME_FROM_LAST_OFFSET, the default: nothing of what was there before is owed to it."""

    def new(event: AnyEvent, at: float) -> AnyEvent | None:
        """The group's first members come half a minute before."""
        is_seen = at >= 219 or (at >= 185 and isinstance(event, HeartBeat))
        return event if is_seen or not hasattr(event, "group") else None

    assert stranded(concluded_with("hook", new)) == []


def test_a_query_of_an_unknown_client_shows_nothing():
    """Its first heartbeat comes later: by then it has pulled on."""

    def late(event: AnyEvent, at: float) -> AnyEvent | None:
        return event if at >= 219 or not hasattr(event, "group") else None

    assert stranded(concluded_with("hook", late)) == []


def test_by_hook_an_offset_that_the_broker_lost_counts_from_the_pulls():
    """The reader of queue 0 begins again at 400 s, and the broker has no offset of it any more."""
    mq = {"topic": "Orders", "queue_id": 0}
    events = field.changed_events(CASE, "hook")
    query = next(one for one in events if isinstance(one, QueryConsumerOffset))
    again = query.time + 180_000

    def later(event: AnyEvent) -> AnyEvent:
        is_first = getattr(event, "topic", "") == "Orders" and event.broker == NEW and event.queue_id == 0
        return moved(4000)(event, 0) if is_first and event.time > again else event

    events_again = [changed(query, time=again, **mq), *(later(one) for one in events)]
    fold = Fold()
    for one in field.numbered(events_again):
        fold.push(one)
    [state] = fold.shard.timeline.groups()
    gone = state.queues[MessageQueue("Orders", NEW, 0)].skipped
    assert gone is not None
    assert (gone.first, gone.start) == (2999, 6999)


@pytest.mark.parametrize("source", ["poll", "both", "hook"])
def test_a_group_that_broadcasts_keeps_its_own_offsets(source):
    def broadcasts(event: AnyEvent, _: float) -> AnyEvent:
        if isinstance(event, HeartBeat):
            return changed(event, message_model="BROADCASTING")
        if isinstance(event, ConsumerRunningInfo) and event.properties is not None:
            return changed(event, properties={**event.properties, "messageModel": "BROADCASTING"})
        if hasattr(event, "message_model") and event.message_model:
            return changed(event, message_model="BROADCASTING")
        return event

    assert stranded(concluded_with(source, broadcasts)) == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(owner_answers(commit_offset=640), id="consumed-a-part"),
        pytest.param(owner_answers(commit_offset=None), id="unreadable"),
        pytest.param(owner_answers(cached_count=32, cached_min=0, cached_max=31), id="begins-at-0"),
        pytest.param(offsets(until=225, pull=-1), id="broker-before-5"),
    ],
)
def test_by_polls_only_an_owner_that_consumed_nothing_shows_where_it_began(change):
    """A commit at the newest offset shows nothing: a quick listener reads a thousand messages within ten seconds."""
    assert stranded(concluded_with("poll", change)) == []


def test_by_polls_the_first_cached_message_shows_where_it_began():
    cached = owner_answers(cached_count=32, cached_min=700, cached_max=731)
    [one] = concluded_with("poll", cached).transitions(CODE)
    assert msgspec.json.decode(one.evidence)["messages"] == 4 * 700


def test_a_cached_message_shows_nothing_where_members_filter():
    """Those before may not match."""
    cached = owner_answers(cached_count=32, cached_min=700, cached_max=731)
    assert stranded(concluded_with("poll", cached, filtered)) == []


def test_queues_that_the_route_had_before_are_not_new():
    """The job starts when the topic has grown already: the queues may be old, and the group new to them."""

    def started(event: AnyEvent, at: float) -> AnyEvent | None:
        return event if at >= 150 else None

    assert stranded(concluded_with("poll", started)) == []


@pytest.mark.parametrize("source", ["poll", "both"])
def test_offsets_that_are_reset_to_the_beginning_resolve_it(source):
    """A person runs resetOffsetByTime: the messages are read after all."""

    def reset(event: AnyEvent, at: float) -> AnyEvent:
        if at < 400:
            return event
        if isinstance(event, ConsumeStats):
            return offsets(commit=int(at - 400) * 20 or 1)(event, at)
        return moved(-int(event.offset if isinstance(event, UpdateConsumerOffset) else 10**6))(event, at)

    found = concluded_with(source, reset)
    assert stranded(found) == [("OPENED", "SKIPPED"), ("RESOLVED", "SKIPPED")]
