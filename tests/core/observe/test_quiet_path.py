"""The quiet path gives what the whole path gives: the same rows, and the same state to the byte."""

import random

import msgspec
import pytest

from rebalance_model.observe import group_observer, snapshots
from rebalance_model.observe.engine.ordering import Ordering
from rebalance_model.observe.engine.timeline import Timeline
from rebalance_model.observe.events import AnyEvent, ConsumerRunningInfo, ConsumeStats, GroupEvent, ProcessQueueInfo
from rebalance_model.observe.hooks import member_calls
from rebalance_model.observe.polls import answers, connections
from rebalance_model.observe.rules import judgement
from streaming.lab.demo import CAPTURE
from tests.detection.generator import scenario_of
from tests.instruments.bench.bench_core import recorded
from tests.support import field
from tests.support.digests import concluded
from tests.support.simulated import simulate
from tests.support.telemetry import spread_telemetry

pytestmark = pytest.mark.replaces
QUIET = (
    (answers, "_repeats", False),
    (connections, "_is_as_called", False),
    (member_calls, "_repeats", False),
    (group_observer, "is_quiet", False),
    (judgement, "_is_quiet", False),
    (snapshots, "_is_as_before", False),
    (Ordering, "push_usual", False),
    (Timeline, "_may_be_due", True),
)
"""The functions that let an event take the quiet path, and their answers that it does not."""
SEEDS = (4,)
CASES = ("03-pull-refused", "28-clock-ahead")


def check(events: list[AnyEvent]) -> None:
    """Fold the log with the quiet path and without it, and compare."""
    quiet = concluded(events)
    with pytest.MonkeyPatch.context() as patched:
        for owner, name, answer in QUIET:
            patched.setattr(owner, name, lambda *_, answer=answer: answer)
        assert concluded(events) == quiet


def events_of(source: str, events: list[AnyEvent]) -> list[AnyEvent]:
    prefix = {"poll": "poll", "hook": "hook", "both": ""}[source]
    return [event for event in events if event.source_id.startswith(prefix)]


def test_the_demo_and_polled_groups_are_concluded_alike():
    check(recorded(CAPTURE)[:5_000])
    check(list(spread_telemetry(10, 30)))


@pytest.mark.parametrize("seed", [pytest.param(n, marks=() if n in SEEDS else pytest.mark.prove) for n in range(500)])
@pytest.mark.parametrize("sources", [("both",), pytest.param(("poll", "hook"), marks=pytest.mark.prove)])
def test_seeds_are_concluded_alike(seed, sources):
    log = simulate(scenario_of(seed), seed).events
    for source in sources:
        check(events_of(source, log))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=() if n in CASES else pytest.mark.prove)
        for n in sorted({path.name.split(".")[0] for path in field.CASES.iterdir()})
    ],
)
def test_reports_are_concluded_alike(name):
    for recording in (field.CASES / name).glob("input-*"):
        check(list(field.events_of(name, recording.name.removeprefix("input-").removesuffix(".jsonl.gz"))))


def odd_queues(info: ProcessQueueInfo) -> list[ProcessQueueInfo]:
    """Return a process queue with each of its fields changed."""
    stale = (info.pull_time or 0) - 200_000
    fields: list[dict[str, object]] = [
        {"dropped": True}, {"locked": not info.locked}, {"pull_time": stale}, {"pull_time": None}, {"lock_time": 0},
        {"consume_time": None}, {"cached_count": None}, {"cached_count": 0}, {"commit_offset": 0},
        {"unlock_attempts": 3}, {"mq": msgspec.structs.replace(info.mq, queue_id=97)},
        {"lock_time": info.pull_time, "consume_time": info.pull_time},
    ]  # fmt: skip
    return [msgspec.structs.replace(info, **one) for one in fields]


def odd_answers(event: AnyEvent) -> list[AnyEvent]:
    """Return an answer with each of what it shows changed."""
    if isinstance(event, ConsumeStats) and event.queues:
        first, *others = event.queues
        offsets = ({"consumer_offset": 0}, {"broker_offset": 0}, {"last_time": 0}, {"consumer_offset": 10**9})
        return [
            msgspec.structs.replace(event, queues=(msgspec.structs.replace(first, **one), *others)) for one in offsets
        ]
    if not isinstance(event, ConsumerRunningInfo) or not event.queues:
        return []
    first, *others = event.queues
    fields: list[dict[str, object]] = [
        *({"queues": (one, *others)} for one in odd_queues(first)),
        {"queues": tuple(others)}, {"queues": (*others, first)}, {"orderly": not event.orderly}, {"start_time": 7},
        {"strategy": "AllocateMachineRoomNearby"}, {"subscriptions": ()}, {"properties": {"consumeThreadMax": "2"}},
        {"properties": {"PROP_CONSUME_TYPE": "CONSUME_ACTIVELY", "messageModel": "BROADCASTING"}},
        {"unreadable": ("queues: odd",)}, {"incomplete": True}, {"client_id": f"{event.client_id}-other"},
    ]  # fmt: skip
    return [msgspec.structs.replace(event, **one) for one in fields]


def test_a_log_with_odd_events_is_concluded_alike():
    """Each odd event comes once, in a log that is otherwise as it was, also one from which events are lost."""
    rng = random.Random(7)
    for log in (list(spread_telemetry(4, 40)), simulate(scenario_of(2), 2).events):
        events = list(log)
        for kind in (ConsumerRunningInfo, ConsumeStats):
            usual = [n for n, one in enumerate(log) if isinstance(one, kind) and odd_answers(one)]
            for turn, number in enumerate(usual[len(usual) // 4 :: 5]):
                odd = odd_answers(log[number])
                events[number] = odd[turn % len(odd)]
        check(events)
        check([one for one in events if not isinstance(one, GroupEvent) or rng.random() > 0.02])
