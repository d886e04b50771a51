"""A state that can't be read, or an event that can't be processed, costs its own group: the others' rows are equal."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache

import msgspec
import pytest
from msgspec.structs import replace

from rebalance_model.observe import cluster_observer, group_observer
from rebalance_model.observe.cluster_observer import ClusterObserver
from rebalance_model.observe.effects import AnyRow, IncidentTransition, QueueProgress
from rebalance_model.observe.engine import timeline
from rebalance_model.observe.engine.ordering import Ordering
from rebalance_model.observe.engine.salvage import Saved
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.engine.timeline import Timeline
from rebalance_model.observe.events import (
    AnyEvent,
    BrokerStatus,
    ConsumerRunningInfo,
    DelayLevel,
    GroupEvent,
    ProxyConnection,
    Tick,
)
from rebalance_model.observe.group_observer import GroupObserver
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.losses import Lost
from rebalance_model.observe.progress import log as progress_log
from rebalance_model.observe.rules.state_lost import BEGAN_AGAIN
from rebalance_model.observe.state import STATE_VERSION, UnreadableStateError
from tests.core.test_shard import LOG, POLICY

HALF = len(LOG) // 2
Damage = Callable[[bytes], bytes]


def of_another_version(blob: bytes) -> bytes:
    fields = msgspec.msgpack.decode(blob, type=dict[str, msgspec.Raw])
    return msgspec.msgpack.encode(fields | {"version": STATE_VERSION + 1})


def with_an_empty_broker(blob: bytes) -> bytes:
    """Damage as by an event of no broker: MessagePack that is whole, with a value that the state does not allow."""
    assert b"\xa6broker\xa8broker-a" in blob
    return blob.replace(b"\xa6broker\xa8broker-a", b"\xa6broker\xa0", 1)


def of_another_group(blob: bytes) -> bytes:
    assert b"\xa5group\xa1g" in blob
    return blob.replace(b"\xa5group\xa1g", b"\xa5group\xa1h", 1)


DAMAGES: dict[str, Damage] = {
    "cut": lambda blob: blob[: len(blob) * 2 // 3],
    "flipped": lambda blob: bytes(byte ^ 0xFF for byte in blob[:40]) + blob[40:],
    "emptied": lambda _: b"",
    "of another version": of_another_version,
    "of an empty name": with_an_empty_broker,
    "of another group": of_another_group,
}


def fold_half() -> tuple[list[AnyRow], Saved, GroupsInMemory]:
    """Fold the first half of the log; return its rows and what it leaves."""
    groups = GroupsInMemory()
    shard = Shard(None, groups, POLICY)
    rows = [row for event in LOG[:HALF] for row in shard.push(event, event.time)]
    return rows, shard.flush(), groups


first_half = cache(fold_half)
"""For tests that break only what comes after it."""


class Folded:
    """The result of a log that is folded in two batches, between which the state is damaged."""

    def __init__(self, damage: Callable[[Saved, GroupsInMemory], Saved], cut: int = 0) -> None:
        self.before, saved, left = first_half()
        groups = GroupsInMemory(left)
        self.saved = damage(saved, groups)
        self.lost: list[Lost] = []
        self.after: list[AnyRow] = []
        shard = Shard(self.saved, groups, POLICY, contains_failures=True)
        for number, event in enumerate(LOG[HALF:], 1):
            self.after += shard.push(event, event.time)
            if cut and number % cut == 0:
                self.lost += shard.take_lost()
                shard = Shard(shard.flush(), groups, POLICY, contains_failures=True)
        self.after += shard.finish()
        self.lost += shard.take_lost()
        shard.flush()

    def rows_of(self, group: str) -> list[AnyRow]:
        return [row for row in self.after if row.group == group and not isinstance(row, QueueProgress)]

    def progress_of(self, group: str) -> list[AnyRow]:
        return [row for row in self.after if row.group == group and isinstance(row, QueueProgress)]

    def incidents(self) -> dict[str, list[IncidentTransition]]:
        by_group = defaultdict(list)
        for row in self.after:
            if isinstance(row, IncidentTransition) and row.code == "STATE_LOST":
                by_group[row.group].append(row)
        return by_group


def damaged(key: str, damage: Damage) -> Callable[[Saved, GroupsInMemory], Saved]:
    def do(saved: Saved, groups: GroupsInMemory) -> Saved:
        groups[key] = damage(groups[key])
        return saved

    return do


def unharmed(saved: Saved, _: GroupsInMemory) -> Saved:
    return saved


@cache
def honest() -> Folded:
    return Folded(unharmed)


@cache
def with_damaged_group(name: str) -> Folded:
    return Folded(damaged("c/g", DAMAGES[name]))


@pytest.mark.parametrize("name", DAMAGES)
def test_a_group_whose_state_can_not_be_read_begins_again(name):
    folded = with_damaged_group(name)
    assert folded.rows_of("h") == honest().rows_of("h") != []
    assert folded.progress_of("h") == honest().progress_of("h")
    assert folded.progress_of("g") == honest().progress_of("g")
    (opened, *_), others = folded.incidents()["g"], folded.incidents().keys() - {"g"}
    assert (opened.transition, opened.severity, opened.sub_cause, opened.subject) == ("OPENED", "critical", "GROUP", "")
    assert "rebalance-watch rebuild" in opened.first_step
    assert not others
    assert [(one.part, one.key) for one in folded.lost] == [("GROUP", "c/g")]
    assert {type(row) for row in folded.rows_of("g")} == {type(row) for row in honest().rows_of("g")}


@pytest.mark.parametrize("name", DAMAGES)
def test_rows_of_a_group_that_begins_again_follow_its_earlier_ones(name):
    """Readers show the row with the highest number."""
    folded = with_damaged_group(name)
    numbers = [row.seq for row in folded.rows_of("g")]
    assert min(numbers) > max(row.seq for row in folded.before if row.group == "g" and hasattr(row, "seq"))
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("name", ["cut", "flipped", "emptied", "of another version"])
def test_a_group_whose_quantities_can_not_be_read_goes_on(name):
    damage = DAMAGES[name] if name != "of another version" else of_another_version
    folded = Folded(damaged("progress c/g", damage))
    assert folded.rows_of("h") == honest().rows_of("h")
    assert folded.progress_of("h") == honest().progress_of("h") != []
    [opened] = folded.incidents()["g"]
    assert (opened.sub_cause, opened.severity) == ("PROGRESS", "critical")
    assert [(one.part, one.key) for one in folded.lost] == [("PROGRESS", "c/g")]
    assert folded.progress_of("g") != []


@pytest.mark.parametrize("name", ["cut", "flipped", "emptied"])
def test_a_shard_whose_own_part_can_not_be_read_goes_on(name):
    """Groups keep their state and their timers; sources and clocks are found again."""
    folded = Folded(lambda saved, _: Saved(DAMAGES[name](saved.blob), saved.buffer))
    assert {one.part for one in folded.lost} == {"SHARD"}
    for group in ("g", "h"):
        [opened] = folded.incidents()[group]
        assert (opened.sub_cause, opened.severity) == ("SHARD", "warning")
        assert {type(row) for row in folded.rows_of(group)} >= {type(row) for row in honest().rows_of(group)}


def without_the_present_time(saved: Saved, _: GroupsInMemory) -> Saved:
    fields = msgspec.msgpack.decode(saved.blob)
    fields["timeline"]["now"] = "later"
    return Saved(msgspec.msgpack.encode(fields), saved.buffer)


def without_a_source(saved: Saved, _: GroupsInMemory) -> Saved:
    fields = msgspec.msgpack.decode(saved.blob, type=dict[str, msgspec.Raw])
    waiting = msgspec.msgpack.decode(fields["waiting"], type=list[msgspec.Raw])
    sources = msgspec.msgpack.decode(waiting[6], type=dict[str, msgspec.Raw])
    spoiled = {name: b"\xc0" if name == min(sources) else bytes(one) for name, one in sources.items()}
    waiting[6] = msgspec.Raw(msgspec.msgpack.encode({name: msgspec.Raw(one) for name, one in spoiled.items()}))
    fields["waiting"] = msgspec.Raw(msgspec.msgpack.encode(waiting))
    return Saved(msgspec.msgpack.encode(fields), saved.buffer)


@pytest.mark.parametrize(
    ("spoil", "lost"), [(without_a_source, "waiting.sources."), (without_the_present_time, "timeline.now")]
)
def test_of_a_damaged_shard_what_can_be_read_is_kept(spoil, lost):
    """One source of the ordering is damaged, or the time; the clocks, the timers and the others are as they were."""
    folded = Folded(spoil)
    [opened] = folded.incidents()["g"]
    assert lost in opened.evidence
    own = [row for row in folded.rows_of("h") if getattr(row, "code", "") != "STATE_LOST"]
    assert len(own) > len(honest().rows_of("h")) // 2


def with_one_spoilt(chunk: bytes) -> bytes:
    events = msgspec.msgpack.decode(chunk, type=list[msgspec.Raw])
    return msgspec.msgpack.encode([msgspec.Raw(b"\xc0"), *events[1:]])


@pytest.mark.parametrize("damage", [with_one_spoilt, DAMAGES["cut"]])
def test_of_damaged_events_that_waited_the_others_are_kept(damage):
    def spoil(saved: Saved, _: GroupsInMemory) -> Saved:
        assert saved.buffer
        chunk = damage(saved.buffer[0])
        return Saved(saved.blob, (chunk, *saved.buffer[1:]))

    folded = Folded(spoil)
    assert [one.part for one in folded.lost] == ["SHARD"]
    [opened] = folded.incidents()["g"]
    assert "events that waited" in opened.evidence


@pytest.mark.parametrize("key", ["c/g", "progress c/g"])
def test_the_same_damage_has_the_same_rows_wherever_batches_end(key):
    whole, cut = Folded(damaged(key, DAMAGES["cut"])), Folded(damaged(key, DAMAGES["cut"]), cut=50)
    assert cut.after == whole.after
    assert [one.key for one in cut.lost] == [one.key for one in whole.lost] == ["c/g"]


def test_incidents_that_were_open_are_resolved_where_they_can_be_read():
    """As with the state that an event of no broker left: its MessagePack is whole."""
    open_before = {
        row.incident_id: row.transition
        for row in honest().before
        if isinstance(row, IncidentTransition) and row.group == "g"
    }
    still_open = {one for one, transition in open_before.items() if transition != "RESOLVED"}
    assert still_open
    folded = with_damaged_group("of an empty name")
    resolved = {
        row.incident_id: row.resolution
        for row in folded.rows_of("g")
        if isinstance(row, IncidentTransition) and row.transition == "RESOLVED" and row.incident_id in still_open
    }
    assert resolved == dict.fromkeys(still_open, "the state of the group was lost")


def test_incidents_of_another_release_are_not_resolved():
    """It had a rule that this one lacks: nobody knows what is said at its end."""

    def of_an_unknown_rule(blob: bytes) -> bytes:
        assert b"\xacLOCK_EXPIRED" in blob
        return with_an_empty_broker(blob).replace(b"\xacLOCK_EXPIRED", b"\xacLOCK_UNKNOWN")

    folded = Folded(damaged("c/g", of_an_unknown_rule))
    assert [(one.part, one.key) for one in folded.lost] == [("GROUP", "c/g")]
    ended = [row.code for row in folded.rows_of("g") if getattr(row, "resolution", None) == BEGAN_AGAIN]
    assert "LOCK_UNKNOWN" not in ended != []


def of_one_broker(begin: int, end: int) -> Iterator[AnyEvent]:
    """Two processes have the name of a broker, which is behind with delayed and with popped messages."""
    for second in range(begin, end):
        common = {"time": LOG[0].time + 1_000 * second, "cluster": "c", "source": "poll", "source_id": "poll-1@1"}
        yield Tick(**common, seq=2 * second)
        if second % 10 == 0 and second < 400:
            waits = {"delay_levels": (DelayLevel(level=3, offset=7, newest=60),), "revive_backlog": 100 + second}
            boots = {"asked": common["time"], "boot_time": second // 30 % 2 + 1}
            yield BrokerStatus(**common, **boots, **waits, broker="broker-a", seq=2 * second + 1)
        elif second % 10 == 0:
            yield BrokerStatus(**common, asked=common["time"], boot_time=1, broker="broker-a", seq=2 * second + 1)


def test_incidents_of_a_broker_whose_own_state_is_damaged_are_resolved():
    groups = GroupsInMemory()
    shard = Shard(None, groups, POLICY)
    rows = [row for event in of_one_broker(0, 400) for row in shard.push(event, event.time)]
    codes = {"BROKER_NAME_SHARED", "DELAYED_STUCK", "REVIVE_BEHIND"}
    assert {row.code for row in rows if isinstance(row, IncidentTransition)} == codes
    saved, brokers = shard.flush(), msgspec.msgpack.encode(shard.timeline.state.clusters["c"].brokers)
    assert brokers in saved.blob
    damaged_blob = saved.blob.replace(brokers, msgspec.msgpack.encode({"broker-a": None}))
    shard = Shard(Saved(damaged_blob, saved.buffer), groups, POLICY, contains_failures=True)
    rows = [row for event in of_one_broker(400, 430) for row in shard.push(event, event.time)]
    assert {row.code for row in rows if isinstance(row, IncidentTransition) and row.transition == "RESOLVED"} == codes
    assert {one.part for one in shard.take_lost()} == {"SHARD"}


def test_an_unreadable_state_is_raised_unless_failures_are_contained():
    shard = Shard(None, GroupsInMemory({"c/g": b"\xc1"}), POLICY)
    with pytest.raises(UnreadableStateError):
        shard.timeline.group("c", "g")


@pytest.fixture(autouse=True)
def honest_rows():
    """Fold the honest log before a test breaks the program."""
    honest()


class BrokenError(Exception):
    """A fault in the program."""


def broken_for(group: str, kind: type[AnyEvent], fold: Callable[..., object]) -> Callable[..., object]:
    """Return a function that fails at each event of that kind of that group, after it has been processed by half."""

    def failing(step: object, event: GroupEvent, *more: object) -> object:
        if event.group == group and isinstance(event, kind):
            fold(step, event, *more)
            raise BrokenError("an index is out of range")
        return fold(step, event, *more)

    return failing


def test_an_event_that_can_not_be_processed_costs_its_group(monkeypatch):
    fold = broken_for("g", ConsumerRunningInfo, group_observer._ANSWERS[ConsumerRunningInfo])
    monkeypatch.setitem(group_observer._ANSWERS, ConsumerRunningInfo, fold)
    with pytest.raises(BrokenError):
        fold_half()  # whose first shard does not contain failures
    shard, rows = Shard(None, GroupsInMemory(), POLICY, contains_failures=True), []
    for event in LOG:
        rows += shard.push(event, event.time)
    rows += shard.finish()
    lost = shard.take_lost()
    own = [row for row in rows if row.group == "h"]
    assert own == [row for row in (*honest().before, *honest().after) if row.group == "h"] != []
    assert {(one.part, one.key) for one in lost} == {("EVENT", "c/g")}
    assert all(one.error == "BrokenError: an index is out of range" and b"RUNNING_INFO" in one.value for one in lost)
    assert "in failing" in lost[0].trace
    found = [row for row in rows if getattr(row, "code", "") == "STATE_LOST"]
    assert [(row.transition, row.sub_cause) for row in found] == [("OPENED", "EVENT")]


@pytest.mark.replaces
@pytest.mark.parametrize("part", ["is_forgotten", "advance"])
def test_a_group_whose_check_fails_begins_again(monkeypatch, part):
    work, times = getattr(GroupObserver, part), itertools.count()
    is_broken = failing_if(work, lambda one, *_: one.state.group == "g" and next(times) < 20)
    monkeypatch.setattr(GroupObserver, part, is_broken)
    with pytest.raises(BrokenError):
        fold_half()
    shard, rows = Shard(None, GroupsInMemory(), POLICY, contains_failures=True), []
    for event in LOG:
        rows += shard.push(event, event.time)
    rows += shard.finish()
    assert {(one.part, one.key) for one in shard.take_lost()} == {("EVENT", "c/g")}
    assert of_group(rows, "h") == of_group([*honest().before, *honest().after], "h")


def test_a_group_whose_state_can_not_be_written_begins_again(monkeypatch):
    is_broken = failing_if(timeline.encode_group, lambda state: state.group == "g" and state.lost is None)
    monkeypatch.setattr(timeline, "encode_group", is_broken)
    with pytest.raises(BrokenError):
        fold_half()
    groups = GroupsInMemory()
    shard = Shard(None, groups, POLICY, contains_failures=True)
    rows = [row for event in LOG[:HALF] for row in shard.push(event, event.time)]
    saved = shard.flush()
    assert [(one.part, one.key) for one in shard.take_lost()] == [("EVENT", "c/g")]
    shard = Shard(saved, groups, POLICY, contains_failures=True)
    rows += [row for event in LOG[HALF:] for row in shard.push(event, event.time)] + shard.finish()
    assert of_group(rows, "h") == of_group([*honest().before, *honest().after], "h")
    [opened] = [row for row in of_group(rows, "g") if getattr(row, "code", "") == "STATE_LOST"]
    assert (opened.transition, opened.sub_cause) == ("OPENED", "EVENT")


@pytest.mark.replaces
@pytest.mark.parametrize("part", ["observe", "pending_hook_row", "encode_progress"])
def test_quantities_that_can_not_be_computed_cost_only_themselves(monkeypatch, part):
    g_was_first = iter((True, True))
    is_broken: Callable[..., bool] = {
        "observe": lambda _, event, __: event.group == "g",
        "pending_hook_row": lambda _, __, group, ___: group == "g",
        "encode_progress": lambda _: next(g_was_first, False),
    }[part]
    monkeypatch.setattr(progress_log, part, failing_if(getattr(progress_log, part), is_broken))
    with pytest.raises(BrokenError):
        fold_half()
    shard, rows = Shard(None, GroupsInMemory(), POLICY, contains_failures=True), []
    for event in LOG:
        rows += shard.push(event, event.time)
    rows += shard.finish()
    shard.flush()
    assert {one.key for one in shard.take_lost()} == {"c/g"}
    assert [row for row in rows if row.group == "h"] == [
        row for row in (*honest().before, *honest().after) if row.group == "h"
    ]


def is_odd(*arguments: object, **_: object) -> bool:
    """Return whether a call is about the source that is odd, its broker or its proxy."""
    return any("odd" in str(one) for one in arguments[1:])


FAULTS = {
    "order": (Ordering, "push"),
    "wait": (Ordering, "limit_of"),
    "release": (Timeline, "fold"),
    "late": (Timeline, "skip"),
    "timer": (Timeline, "_note_silence"),
    "source": (ClusterObserver, "on_source"),
    "proxy": (cluster_observer._Step, "note_proxy"),
    "broadcast": (cluster_observer._Step, "observe"),
    "judgement": (cluster_observer, "apply"),
}


@pytest.mark.replaces
@pytest.mark.parametrize("part", FAULTS)
def test_a_source_or_broker_that_can_not_be_processed_costs_itself(monkeypatch, part):
    """The rows of all groups are the same, until its silence matters that is not noted; the shard goes on."""
    expected = honest_beside_an_odd_source()
    place, name = FAULTS[part]
    monkeypatch.setattr(place, name, failing_if(getattr(place, name), is_odd))
    shard = Shard(None, GroupsInMemory(), POLICY, contains_failures=True)
    rows = with_an_odd_source(shard)
    lost = shard.take_lost()
    assert {one.error for one in lost} == {"BrokenError: an index is out of range"}
    assert {one.key for one in lost} <= {"", "c/odd"}
    until = LOG[HALF].time if part in {"timer", "source"} else LOG[-1].time
    for group in ("g", "h"):
        own, others = of_group(rows, group), of_group(expected, group)
        assert [row for row in own if row.time < until] == [row for row in others if row.time < until] != []
        assert own[-1].time == others[-1].time
    with pytest.raises(BrokenError):
        with_an_odd_source(Shard(None, GroupsInMemory(), POLICY))


@cache
def honest_beside_an_odd_source() -> list[AnyRow]:
    return with_an_odd_source(Shard(None, GroupsInMemory(), POLICY))


def with_an_odd_source(shard: Shard) -> list[AnyRow]:
    """Fold the log with a further source, which has a broker and a proxy of its own, and falls silent."""
    rows: list[AnyRow] = []
    ticks = 0
    for event in LOG:
        rows += shard.push(event, event.time)
        if isinstance(event, Tick) and event.time < LOG[HALF].time:
            ticks += 1
            common = {"cluster": "c", "source_id": "odd@1", "time": event.time}
            answer = {"source": "poll", "asked": 1, "answered": 2}
            status = BrokerStatus(**common, **answer, broker="odd", seq=3 * ticks + 1, boot_time=1)
            odd: list[AnyEvent] = [
                Tick(**common, broker="odd", source="hook", seq=3 * ticks),
                status,
                replace(status, time=0, seq=3 * ticks + 2),
                ProxyConnection(**common, **answer, broker="", group="odd", seq=ticks, proxy="odd:1", connections=()),
            ]
            for one in odd:
                rows += shard.push(one, event.time)
    return [*rows, *shard.finish()]


def of_group(rows: list[AnyRow], group: str) -> list[AnyRow]:
    """Return the rows of a group, but not when the job knew them: it may have waited for other sources."""
    return [replace(row, known_at=0) for row in rows if row.group == group and not isinstance(row, QueueProgress)]


def failing_if(work: Callable[..., object], is_broken: Callable[..., bool]) -> Callable[..., object]:
    def failing(*args: object, **more: object) -> object:
        if is_broken(*args, **more):
            raise BrokenError("an index is out of range")
        return work(*args, **more)

    return failing
