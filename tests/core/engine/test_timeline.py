"""Sources that stay behind, and time in which no source ticks."""

from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.events import Tick
from simulation.cluster import START
from tests.support.folding import Fold
from tests.support.simulated import simulate, small


def tick(name: str, second: float, seq: int) -> Tick:
    """A tick of the collector, or of the hook of a broker of that name."""
    broker = "" if name == "poll" else name
    return Tick(
        time=START + round(1_000 * second), cluster="c", broker=broker, source="hook" if broker else "poll",
        source_id=f"{name}@1", seq=seq,
    )  # fmt: skip


def test_a_silent_source_that_ticks_far_behind_is_late_once():
    fold, rows = Fold(), []
    for second in range(1, 200):
        stamp = START + 1_000 * second
        rows += fold.push(tick("poll", second, second), stamp)
        if second <= 60 or second > 120:
            rows += fold.push(tick("broker-a", second if second <= 60 else second - 60, second), stamp)
    assert [(row.transition, row.sub_cause) for row in rows if isinstance(row, IncidentTransition)] == [
        ("OPENED", "HOOK_SILENT"),
        ("RECLASSIFIED", "LATE"),
    ]


def test_time_without_any_tick_does_not_count_for_what_is_pending():
    """A broker's clock is 8 s ahead; all stand for 10 minutes before that has been so for 60 s."""
    story = small(brokers=[{"name": "broker-a", "clock_offset_ms": 8_000}], minutes=2)
    fold = Fold()
    for event in simulate(story, hook=True, poll=True).events:
        fold.push(event)
        if any(cluster.pending for cluster in fold.shard.timeline.state.clusters.values()):
            break
    timeline = fold.shard.timeline
    [pending] = timeline.state.clusters["sim"].pending.values()
    since, stood = pending.since, 600_000
    effects = timeline.advance(timeline.state.ticked + stood)
    assert pending.since == since + stood
    assert [effect for effect in effects if isinstance(effect, IncidentTransition)] == []
