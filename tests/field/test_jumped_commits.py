"""A commit that jumps forward over messages that nobody read is said (issue 49, A3)."""

import json

import pytest

from rebalance_model.observe.events import (
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    InvokeBrokerToResetOffset,
    OffsetInfo,
    PullMessage,
    QueryConsumerOffset,
    UpdateConsumerOffset,
)
from rebalance_model.observe.group import jumps
from tests.support.field import SOURCES, changed, changed_events, concluded, concluded_of, events_of, numbered
from tests.support.hook_trace import HookTrace
from tests.support.incident_rows import evidence
from tests.support.trace import Held, Member, Trace, holding, mq

EXPIRED = "44-expired-before-consumed"
"""At 300 s the store has deleted what the group would read next; after 10 s the commit is 40,000."""
QUEUES, SKIPPED = 4, 23_000
RESET = "60-reset-while-stopped"
"""A real 5.x broker: the only client is stopped at 88 s; resetOffsetByTime at about 140 s; it is back at 146 s."""
LEFT, MOVED, BACK = 88, 140, 146
NEWEST = (52, 53, 60, 59)
"""Where the client begins each queue, by the queue's number; it had committed 36, 37, 43 and 42."""
CODE = "MESSAGES_STRANDED"


def said(conclusions):
    """Return the sub-cause, the number of messages and the queues of the incident that is open at the end."""
    [found] = [one for one in conclusions.open_at_end() if one.code == CODE]
    evidence = json.loads(found.evidence)
    return found.sub_cause, evidence["messages"], evidence["queue_names"]


@pytest.mark.parametrize("source", SOURCES)
def test_messages_that_were_deleted_unread_are_counted(source):
    conclusions = concluded(EXPIRED, source)
    sub_cause, messages, names = said(conclusions)
    assert sub_cause == ("JUMPED" if source == "poll" else "EXPIRED")
    assert 0.95 * QUEUES * SKIPPED < messages <= QUEUES * SKIPPED
    assert names == "Orders@broker-a:0,1,2,3"
    assert conclusions.group().health == "WARN"


def test_by_hook_an_offset_that_was_moved_is_a_jump():
    """No pull is refused: an operator has moved the commit."""
    events = changed_events(
        EXPIRED, "hook", lambda event, _: event if not isinstance(event, PullMessage) or event.code != 21 else None
    )
    assert said(concluded_of(events))[0] == "JUMPED"


def test_a_client_that_goes_on_has_read_what_it_commits():
    """A near miss: a slave may have served it, so the master has seen no pull; the client never dropped the queue."""

    def keeps(event, second):
        if not isinstance(event, ConsumerRunningInfo) or second < 295:
            return event
        rows = tuple(changed(one, dropped=False) for one in event.queues or ())
        return changed(event, queues=rows) if rows else None

    conclusions = concluded_of(changed_events(EXPIRED, "poll", keeps))
    assert conclusions.transitions(CODE) == []


@pytest.mark.parametrize("by", [999, 0])
def test_a_small_jump_may_be_what_was_pulled_since(by):
    def near(event, _):
        if not isinstance(event, ConsumeStats):
            return event
        rows = tuple(
            changed(one, consumer_offset=min(one.consumer_offset, 17_200 + by)) if not one.mq.is_retry else one
            for one in event.queues or ()
        )
        return changed(event, queues=rows)

    assert concluded_of(changed_events(EXPIRED, "poll", near)).transitions(CODE) == []


@pytest.mark.parametrize("source", ["poll", "both"])
def test_a_reset_to_an_earlier_time_ends_it(source):
    def back(event, second):
        if not isinstance(event, ConsumeStats) or second < 500:
            return event
        rows = tuple(
            changed(one, consumer_offset=18_000, pull_offset=18_100) if not one.mq.is_retry else one
            for one in event.queues or ()
        )
        return changed(event, queues=rows)

    conclusions = concluded_of(changed_events(EXPIRED, source, back))
    assert [one.transition for one in conclusions.transitions(CODE)] == ["OPENED", "RESOLVED"]


def test_a_broker_that_repeats_the_commit_as_what_was_pulled_hides_no_jump():
    """As 5.x does: OffsetWrapper.pullOffset is never below the commit."""

    def repeats(event, _):
        if not isinstance(event, ConsumeStats):
            return event
        rows = (changed(one, pull_offset=max(one.pull_offset, one.consumer_offset)) for one in event.queues or ())
        return changed(event, queues=tuple(rows))

    assert said(concluded_of(changed_events(EXPIRED, "poll", repeats)))[0] == "JUMPED"


@pytest.mark.parametrize(("threshold", "is_far"), [("22000", True), ("24000", False)])
def test_a_client_may_have_pulled_as_much_as_it_declares(threshold, is_far):
    def declares(event, _):
        if not isinstance(event, ConsumerRunningInfo) or event.queues is None:
            return event
        return changed(event, properties=event.properties | {"pullThresholdForQueue": threshold})

    assert bool(concluded_of(changed_events(EXPIRED, "poll", declares)).transitions(CODE)) is is_far


@pytest.mark.parametrize(("source", "sub_cause"), [("poll", "WHILE_EMPTY"), ("hook", "JUMPED"), ("both", "JUMPED")])
def test_a_reset_while_the_group_is_stopped_is_said(source, sub_cause):
    conclusions = concluded(RESET, source)
    assert said(conclusions) == (sub_cause, 66, "Java@broker-a:0,1,2,3")
    [opened] = conclusions.transitions(CODE)
    assert conclusions.seconds(opened) < BACK + 20
    assert json.loads(opened.evidence)["moved_by"] is None


@pytest.mark.parametrize("silent", [60, 100, 120, MOVED])
def test_a_hook_that_falls_silent_before_the_reset_hides_nothing_of_it(silent):
    """It knows when the last member left better than answers, which show that one's last commit seconds later."""
    events = events_of(RESET, "both")
    until = events[0].time + silent * 1000
    known = [one for one in events if one.source_id.startswith("poll") or one.time < until]
    assert said(concluded_of(numbered(known))) == ("WHILE_EMPTY", 66, "Java@broker-a:0,1,2,3")


def by_a_tool(event):
    """Return the commits of resetOffsetByTimeOld: a tool makes them itself."""
    return [
        UpdateConsumerOffset(
            time=event.time + MOVED * 1000,
            cluster=event.cluster,
            broker=event.broker,
            source=event.source,
            source_id=event.source_id,
            seq=1,
            group="java-group",
            channel="127.0.0.9:4711",
            topic="Java",
            queue_id=queue_id,
            offset=newest,
        )
        for queue_id, newest in enumerate(NEWEST)
    ]


@pytest.mark.parametrize("source", ["hook", "both"])
def test_the_tool_that_moved_the_offset_is_named(source):
    events = events_of(RESET, source)
    first = next(one for one in events if isinstance(one, PullMessage))
    moves = [changed(one, time=events[0].time + MOVED * 1000) for one in by_a_tool(first)]
    conclusions = concluded_of(numbered([*events, *moves]))
    assert said(conclusions) == ("JUMPED", 66, "Java@broker-a:0,1,2,3")
    [opened] = conclusions.transitions(CODE)
    assert json.loads(opened.evidence)["moved_by"] == "127.0.0.9:4711"


@pytest.mark.parametrize("pulled", [True, False])
def test_a_channel_that_pulls_is_that_of_a_client_and_no_tool_s(pulled):
    """As one whose heartbeats the broker refuses (seed 101 of the detection)."""
    events = events_of(RESET, "hook")
    first = next(one for one in events if isinstance(one, PullMessage))
    moves = [changed(one, time=events[0].time + MOVED * 1000) for one in by_a_tool(first)]
    pull = changed(first, channel=moves[0].channel, topic="Other", time=moves[0].time, last_time=moves[0].time)
    conclusions = concluded_of(numbered([*events, *moves, *([pull] if pulled else [])]))
    assert bool(conclusions.transitions(CODE)) is not pulled


def asked_for(name, source, of_topic, at, **fields):
    """Return a case with a tool's request to the broker to reset the group's offsets, at a time."""
    events = events_of(name, source)
    hook = next(one for one in events if isinstance(one, PullMessage) and one.topic == of_topic)
    given = {
        "channel": "127.0.0.9:4712",
        "topic": of_topic,
        "queue_id": -1,
        "seq": 1,
        "time": events[0].time + at * 1000,
    }
    common = {one: getattr(hook, one) for one in ("cluster", "broker", "source", "source_id", "group")}
    return concluded_of(numbered([*events, InvokeBrokerToResetOffset(**common | given | fields)]))


@pytest.mark.parametrize("source", ["hook", "both"])
@pytest.mark.parametrize(
    ("fields", "by"),
    [({}, "127.0.0.9:4712"), ({"code": 16}, None), ({"topic": "Other"}, None), ({"queue_id": 7}, None)],
)
def test_the_tool_that_asked_the_broker_for_a_reset_is_named(source, fields, by):
    """The broker moves the offsets itself: no commit shows it."""
    conclusions = asked_for(RESET, source, "Java", MOVED, **fields)
    assert said(conclusions) == ("JUMPED", 66, "Java@broker-a:0,1,2,3")
    [opened] = conclusions.transitions(CODE)
    assert json.loads(opened.evidence)["moved_by"] == by


def test_pulls_that_are_moved_after_a_reset_have_not_expired():
    """A broker that resets offsets itself answers pulls as if their messages were gone (21)."""
    before = concluded(EXPIRED, "hook")
    [opened, *_] = before.transitions(CODE)
    assert (opened.sub_cause, json.loads(opened.evidence)["moved_by"]) == ("EXPIRED", None)
    moved = asked_for(EXPIRED, "hook", said(before)[2].partition("@")[0], round(before.seconds(opened)) - 60)
    [opened, *_] = moved.transitions(CODE)
    assert (opened.sub_cause, json.loads(opened.evidence)["moved_by"]) == ("JUMPED", "127.0.0.9:4712")


def test_by_hook_a_client_that_begins_at_the_last_commit_skips_nothing():
    """A near miss: its first pulls are at the commits of before."""

    def resumes(event, second):
        if second < BACK or not isinstance(event, PullMessage | UpdateConsumerOffset) or event.topic != "Java":
            return event
        if isinstance(event, UpdateConsumerOffset):
            return event if second > BACK + 5 else None
        return changed(event, first_offset=36, last_offset=max(event.last_offset, 43), commit_offset=-1, code=None)

    assert concluded_of(changed_events(RESET, "hook", resumes)).transitions(CODE) == []


def test_by_hook_a_client_that_never_queried_may_begin_anywhere():
    """A near miss: one that was frozen, and continues where it was."""
    events = changed_events(
        RESET, "hook", lambda event, at: event if not isinstance(event, QueryConsumerOffset) or at < BACK else None
    )
    assert concluded_of(events).transitions(CODE) == []


def test_by_polls_a_group_that_nobody_joins_may_have_unlisted_clients():
    """A near miss: its commits go on, as those of clients behind a proxy that is not asked."""

    def unlisted(event, second):
        if second < MOVED:
            return event
        if isinstance(event, ConsumerRunningInfo):
            return None
        return changed(event, connections=()) if isinstance(event, ConsumerConnection) else event

    assert concluded_of(changed_events(RESET, "poll", unlisted)).transitions(CODE) == []


def test_by_polls_commits_that_go_on_without_members_were_not_moved():
    def goes_on(event, second):
        if not isinstance(event, ConsumeStats) or not LEFT + 30 < second < MOVED:
            return event
        rows = (changed(one, consumer_offset=one.consumer_offset + int(second / 20)) for one in event.queues or ())
        return changed(event, queues=tuple(rows))

    assert concluded_of(changed_events(RESET, "poll", goes_on)).transitions(CODE) == []


def test_by_hook_a_client_that_pulls_on_skips_nothing():
    """A near miss: b asks for the offset and never pulls; a, which had the queue, goes on beyond its commit."""
    trace = HookTrace().heart_beat(0, "a", "b").asks(1, "a", 0)
    for at in range(10, 40, 10):
        trace = trace.heart_beat(at, "a", "b").pulls(at, "a", 0, offset=at).commits(at + 0.1, "a", 0, at)
    trace = trace.asks(40, "b", 0)
    for at in range(80, 140, 10):
        trace = trace.heart_beat(at, "a", "b").pulls(at, "a", 0, offset=at)
    assert [what for _, _, what in trace.passes(180).incidents() if CODE in what] == []


def beyond(*jumps, again=0.01):
    """Return a hook of 5.x, which has no codes of pulls: after each pull a commit beyond it, and the queue is retaken.

    Args:
        jumps: the offset of a pull, and the commit.
        again: how long after the commit the client queries its offset, seconds.
    """
    trace = HookTrace().heart_beat(0, "a").asks(1, "a", 0).pulls(1.1, "a", 0).commits(5, "a", 0, 0)
    for at, (pulled, commit) in zip(range(20, 90, 20), jumps, strict=False):
        trace = trace.heart_beat(at, "a").pulls(at, "a", 0, offset=pulled).commits(at + 0.01, "a", 0, commit)
        trace = trace.asks(at + 0.01 + again, "a", 0).pulls(at + 2, "a", 0, offset=commit)
    return trace.heart_beat(90, "a").passes(100)


def test_by_hook_a_pull_that_is_corrected_at_once_has_expired():
    trace = beyond((500, 700))
    assert [(one, what) for _, one, what in trace.incidents(CODE)] == [("OPENED", f"{CODE} EXPIRED")]
    assert evidence(trace, CODE)[0]["messages"] == 200


def test_by_hook_messages_that_expire_again_and_again_are_one_incident():
    trace = beyond((500, 700), (1_700, 1_900), (2_900, 3_000))
    assert [(one, what) for _, one, what in trace.incidents(CODE)] == [("OPENED", f"{CODE} EXPIRED")]
    assert trace.state.queues[mq(0)].skipped.before == 400


@pytest.mark.parametrize(("to", "again"), [(564, 0.01), (700, 3)])
def test_by_hook_what_was_pulled_or_is_retaken_later_has_not_expired(to, again):
    """Near misses: the last two batches may have been received; a client that is corrected takes the queue at once."""
    assert beyond((500, to), again=again).incidents(CODE) == []


def test_by_hook_a_commit_that_is_made_three_times_has_skipped_them_once():
    trace = HookTrace().heart_beat(0, "a").asks(1, "a", 0).pulls(1.1, "a", 0).commits(5, "a", 0, 0)
    trace.heart_beat(20, "a").pulls(20, "a", 0, offset=500)
    for at in (20.01, 20.02, 20.03):
        trace.commits(at, "a", 0, 530)
    trace.asks(20.04, "a", 0).pulls(22, "a", 0, offset=530).heart_beat(50, "a").passes(60)
    assert [what for _, _, what in trace.incidents(CODE)] == [f"{CODE} EXPIRED"]
    assert evidence(trace, CODE)[0]["messages"] == 30
    assert trace.state.queues[mq(0)].skipped.before == 0, "it is one jump"


def test_of_too_many_resets_and_unknown_channels_the_last_ones_are_kept(monkeypatch):
    monkeypatch.setattr(jumps, "RESETS_MAX", 2)
    monkeypatch.setattr(jumps, "UNKNOWN_PULLERS_MAX", 2)
    trace = HookTrace().heart_beat(0, "a")
    for at, name in enumerate(("A", "B", "A", "C"), 1):
        trace._emit(at, InvokeBrokerToResetOffset, channel="tool:1", topic=name, queue_id=-1, code=0)
        trace.pulls(at, name, 0)
    assert (list(trace.view().resets), list(trace.view().unknown_pullers)) == (["A", "C"], ["A:0", "C:0"])


def test_by_polls_the_first_commit_of_a_queue_is_no_jump():
    """A near miss: none was stored before (-1), so nobody knows where its client began; it has dropped the queue."""
    trace, dropped = Trace(route=1), Member((Held(0, dropped=True),))
    for at, commit, member in ((0, -1, holding(0)), (10, -1, dropped), (20, 9_000, dropped)):
        trace.poll(at, {"a": member})
        row = OffsetInfo(mq=mq(0), broker_offset=10_000, consumer_offset=commit, pull_offset=commit)
        trace._fold(ConsumeStats(queues=(row,), **trace._poll(trace.now)))
    assert trace.poll(60, {"a": holding(0)}).incidents(CODE) == []
