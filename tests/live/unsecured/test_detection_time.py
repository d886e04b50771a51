"""Time until a frozen ordered consumer is reported: by the hook, by polls, by both, and by mqadmin; in one run.

A time is that of the event, by its source's clock, that leads to the report; the delay until its row is in the table
depends on the pipeline (`test_whole_path`). All processes run on one machine, so there is only one clock.
"""

import heapq
import time
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import pytest

from rebalance_model.observe import events
from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.events.decoding import decode
from rebalance_model.observe.policy import Policy
from streaming.collect.client import RpcFailedError
from tests.instruments.faults.mqadmin import ConsumerStatus
from tests.live.commands import Command
from tests.support import hooked
from tests.support.folding import folded
from tests.support.recordings import recorded_rows

pytestmark = pytest.mark.live
LOCK_EXPIRED, STUCK = "LOCK_EXPIRED", "ORDERED_QUEUE_STUCK"
STUCK_SECONDS = 95
"""The time until polls have reported a stuck queue (60 s and two polls), before the broker drops the client (120 s)."""
FROZEN_SECONDS_MAX = 90
"""The time for which the broker keeps the client at least: 120 s since its last heartbeat, sent every 30 s."""
SETTLED_SECONDS, SETTLED_SECONDS_MAX = 10, 300
"""A cluster whose assignment was correct for this time is at rest. A thawed client first closes the channels that did
not answer and comes back on others, repeatedly, and its group rebalances every time."""
LOCK_MS = Policy().client_lock_max_live_time
TICK_MS = 1_000
FLIGHT_MS = 1_000
"""A request sent before the freeze may be granted after it."""
SOURCES = ("hook alone", "poll alone", "hook and poll")


@dataclass(frozen=True)
class Opening:
    """An incident of one queue was opened."""

    code: str
    client_id: str
    queue: tuple[str, int]
    time: int


def openings(log):
    """Return every opening of an incident, with the time at which it was known."""
    return [
        Opening(effect.code, effect.client_id, (effect.topic, effect.queue_id), effect.known_at)
        for effect in folded(log)
        if isinstance(effect, IncidentTransition) and effect.transition == "OPENED"
    ]


def recorded(path):
    """The events of a recording."""
    stamp = time.time_ns() // 1_000_000
    return [decode(row.value, key=None, stamp=stamp, keyed=False) for (row,) in recorded_rows(path, 1)]


@dataclass(frozen=True)
class Run:
    """The freezes, and everything that was observed."""

    frozen: list
    hook: list
    poll: list
    mqadmin: list

    def openings(self, freeze, until):
        """Return the reports of each source about the frozen client."""
        logs = (self.hook, self.poll, heapq.merge(self.hook, self.poll, key=lambda event: event.time))
        return {
            source: [
                one for one in openings(log) if one.client_id == freeze.client_id and freeze.time <= one.time < until
            ]
            for source, log in zip(SOURCES, logs, strict=True)
        }

    def renewals(self, freeze):
        """Return the time of the frozen client's last granted lock of each queue, by the broker's clock."""
        renewed = {}
        for event in self.hook:
            mine = isinstance(event, events.LockBatchMq) and event.client_id == freeze.client_id
            if mine and event.time < freeze.done + FLIGHT_MS:
                renewed |= {(mq.topic, mq.queue_id): event.time for mq in event.granted}
        return renewed

    def late_ms(self, freeze, until):
        """Return by how much the ticks of a source came too late at most, because the machine stood still."""
        gaps = [0]
        for log in (self.hook, self.poll):
            ticks = [one.time for one in log if isinstance(one, events.Tick) and freeze.time <= one.time <= until]
            gaps += [later - earlier - TICK_MS for earlier, later in pairwise(ticks)]
        return max(gaps)


def first(openings, source, code):
    """Return when the source first reported it; None: never."""
    return min((one.time for one in openings[source] if one.code == code), default=None)


def _seconds(freeze, moment):
    return (moment - freeze.time) / 1000


def settle(watch, group):
    """Wait until the group's queues have been assigned for a while without interruption."""
    deadline, since = time.monotonic() + SETTLED_SECONDS_MAX, None
    while since is None or time.monotonic() - since < SETTLED_SECONDS:
        assert time.monotonic() < deadline
        try:
            shared = watch.is_shared_out(group, 1) and len(watch.connections(group.group)) == group.consumers
        except (AssertionError, RpcFailedError):  # seen in the middle of a change
            shared = False
        since = (since or time.monotonic()) if shared else None
        time.sleep(1)


def await_answer(mqadmin, freeze):
    """Wait for the end of the mqadmin run that was started during the freeze: 10 to 25 s."""
    while not any(freeze.done <= said.asked and said.found_the_broker for said in mqadmin.answers) and (
        time.time() < freeze.done / 1000 + FROZEN_SECONDS_MAX
    ):
        time.sleep(0.1)


def freeze_and_thaw(lab, watch, group, tmp_path, *, times, seconds):
    """Freeze an ordered consumer this many times, for at least this time, observed by polls, hook and mqadmin."""
    recording = tmp_path / "poll.jsonl"
    settings = {"COLLECTOR__NAME_SERVERS": msgspec.json.encode([lab.name_server]).decode()}
    frozen = []
    with (
        Command(tmp_path, settings, "collect", "poll", "--to", recording).start() as collector,
        ConsumerStatus(tmp_path / "mqadmin", lab.name_server, group.group) as mqadmin,
    ):
        collector.wait_for("round", 300)
        while not mqadmin.answers:
            time.sleep(0.1)
        for _ in range(times):
            settle(watch, group)
            freeze = lab.fault("freeze")
            try:
                time.sleep(seconds)
                await_answer(mqadmin, freeze)
            finally:
                frozen.append((freeze, lab.cure("freeze")))
        assert collector.interrupt() == 0, collector.said()
    return Run(frozen, hooked.spooled(lab.spool), recorded(recording), mqadmin.answers)


def check(run, freeze, until, openings):
    """Check what must hold for every freeze, however long."""
    renewed, late_ms = run.renewals(freeze), run.late_ms(freeze, until)
    late = late_ms / 1000
    expired = [one for one in openings["hook alone"] if one.code == LOCK_EXPIRED]
    assert expired
    for one in expired:
        assert LOCK_MS < one.time - renewed[one.queue] <= LOCK_MS + 2_000 + late_ms
    by_hook, by_poll, by_both = (_seconds(freeze, first(openings, source, LOCK_EXPIRED)) for source in SOURCES)
    assert 0 < by_hook <= 33 + late  # the client renews every 20 s, unless the machine stands still
    unanswered = [
        _seconds(freeze, event.asked)
        for event in run.poll
        if isinstance(event, events.ConsumerRunningInfo)
        and event.client_id == freeze.client_id
        and event.error is not None
        and freeze.time <= event.time <= first(openings, "poll alone", LOCK_EXPIRED)
    ]
    assert len(unanswered) >= 2
    assert 30 < by_poll - unanswered[0] <= 32 + late
    assert by_both <= by_hook + 1 + late
    after = [
        said for said in run.mqadmin if freeze.done <= said.asked and said.answered < until and said.found_the_broker
    ]
    assert after
    for said in after:
        assert said.code == 0
        assert freeze.client_id not in said.clients
        assert "Rebalance OK" in said.verdicts
        assert "lock" not in said.out + said.err
        assert "while" not in said.out  # "can't consume for a while": its message for a stuck queue


def show(run, tables):
    """Print the figures as README and PROVED.md have them."""
    print(f"\n| seconds after the freeze | {LOCK_EXPIRED} | {STUCK} |\n| --- | --- | --- |")
    for source in SOURCES:
        cells = []
        for code in (LOCK_EXPIRED, STUCK):
            moments = [
                (freeze, first(openings, source, code))
                for (freeze, _), openings in zip(run.frozen, tables, strict=True)
            ]
            found = [f"{_seconds(freeze, moment):.1f}" for freeze, moment in moments if moment is not None]
            cells.append(", ".join(found) or "not reported")
        print(f"| {source} | {' | '.join(cells)} |")
    for freeze, thaw in run.frozen:
        renewed = max(run.renewals(freeze).values())
        print(f"frozen {-_seconds(freeze, renewed):.1f} s after the last renewal")
        for said in run.mqadmin:
            if freeze.time <= said.answered and said.asked < thaw.time:
                clients = ", ".join(sorted(said.clients))
                print(
                    f"  mqadmin, {_seconds(freeze, said.asked):.1f} to {_seconds(freeze, said.answered):.1f} s, "
                    f"exit code {said.code}: {clients}; {'; '.join(said.verdicts)}"
                )


@pytest.mark.prove
def test_what_each_source_tells_of_frozen_consumers_and_when(lab, lab_settings, watch, tmp_path):
    run = freeze_and_thaw(lab, watch, lab_settings.lab.groups["orders"], tmp_path, times=3, seconds=STUCK_SECONDS)
    tables = [run.openings(freeze, thaw.time) for freeze, thaw in run.frozen]
    show(run, tables)
    for (freeze, thaw), openings in zip(run.frozen, tables, strict=True):
        check(run, freeze, thaw.time, openings)
        for source in SOURCES:
            assert 50 < _seconds(freeze, first(openings, source, STUCK)) <= 90
