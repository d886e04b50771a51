"""The scenario table of a frozen source: events that are missing while no source ticks prove nothing.

Through a shard, which has the sources' ticks: every second, except while the broker is frozen.
"""

from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.events import AnyEvent, Tick
from rebalance_model.observe.state import IncidentKey, Pending
from tests.support.folding import folded
from tests.support.hook_trace import A, B, HookTrace
from tests.support.incident_rows import distinct_transitions


class Standing(HookTrace):
    """A hook's events, and the transitions that a shard derives from them."""

    def transitions(self, *stands: tuple[float, float], until: float = 400) -> list[tuple[float, str, str]]:
        """Return (seconds, transition, incident) of every transition; the broker is frozen in the spans ``stands``."""
        log = [*(e for e in self.events if e.time <= self.clock(until)), *self.ticks(stands, until)]
        found, log = Standing(), sorted(log, key=lambda event: event.time)
        found.effects = [e for e in folded(log) if isinstance(e, IncidentTransition)]
        return distinct_transitions(found)

    def ticks(self, stands: tuple[tuple[float, float], ...], until: float) -> list[AnyEvent]:
        seconds = [n + 0.5 for n in range(round(until)) if not any(a <= n + 0.5 <= b for a, b in stands)]
        return [Tick(seq=round(1000 * at), **self._common(self.clock(at))) for at in seconds]


def working(trace: Standing, *spans: tuple[int, int], without: str = "") -> Standing:
    """a has 0 and b 1: they heartbeat, renew, pull and commit every 10 s in the spans."""
    for begin, end in spans:
        for at in range(begin, end, 10):
            for n, client in enumerate("ab"):
                if client != without:
                    trace.heart_beat(at + n, client).locks(at + n + 0.1, client, n)
                    trace.pulls(at + n + 0.2, client, n, offset=2 * at + 20).commits(at + n + 0.3, client, n, 2 * at)
    return trace


def test_a_broker_that_is_frozen_for_90_s_makes_no_client_stale():
    """The lab's broker-freeze: its hook reported stale heartbeats, expired locks and stuck queues in the first tick."""
    assert working(Standing(), (0, 50), (140, 200)).transitions((45, 139.9), until=200) == []


def test_a_ticking_broker_without_heartbeats_counts_as_running():
    found = working(Standing(), (0, 50), (140, 200)).transitions(until=200)
    assert {name for _, _, name in found} >= {"LOCK_EXPIRED", "STALE_HEARTBEAT"}


def test_a_client_that_does_not_return_is_reported_after_the_usual_time():
    """The broker is back, and ticks, at 80.5: a's lock may be 30 s old then, its heartbeat and its commit 60."""
    trace = working(working(Standing(), (0, 50)), (80, 160), without="a")
    assert trace.transitions((45, 79.9), until=150) == [
        (110.501, "OPENED", "LOCK_EXPIRED"),
        (140.501, "OPENED", "STALE_HEARTBEAT"),
        (140.501, "DEESCALATED", "LOCK_EXPIRED"),  # it is explained by it
        (140.501, "OPENED", "ORDERED_QUEUE_STUCK OWNER_UNRESPONSIVE"),
        (140.502, "ESCALATED", "STALE_HEARTBEAT"),
    ]


def test_an_open_incident_stays_open_until_it_is_known_to_be_clear():
    """a is frozen at 35: LOCK_EXPIRED at 60, STALE_HEARTBEAT at 90; the broker is frozen from 100 to 130."""
    trace = working(Standing(), (0, 40))
    working(working(trace, (40, 100), without="a"), (130, 150), without="a")
    trace.heart_beat(150, "a").locks(150.5, "a", 0)
    codes = ("LOCK_EXPIRED", "STALE_HEARTBEAT")
    assert [t for t in trace.transitions((100, 129.9), until=155) if t[2] in codes] == [
        (60.101, "OPENED", "LOCK_EXPIRED"),
        (90.001, "OPENED", "STALE_HEARTBEAT"),
        (90.001, "DEESCALATED", "LOCK_EXPIRED"),
        (90.101, "ESCALATED", "LOCK_EXPIRED"),
        (90.102, "ESCALATED", "STALE_HEARTBEAT"),
        (150.5, "RESOLVED", "LOCK_EXPIRED"),  # STALE_HEARTBEAT is clear at 150, and waits for the queue that is stuck
    ]


def test_the_frozen_time_of_a_broker_does_not_count_for_pending_or_ages():
    """Neither broker's hook has reported for 50 s."""
    trace = HookTrace().heart_beat(0, "a").of(B).heart_beat(1, "b").of(A)  # each broker has one of them
    state = trace.state
    state.pending = {
        IncidentKey("CID_VIEW_SPLIT"): Pending(1_000),
        IncidentKey("FROZEN"): Pending(1_000, frozen_at=2_000),
    }
    state.unsettled = {"": 2}
    trace.stands(10, 60)
    assert [(one.since, one.frozen_at) for one in state.pending.values()] == [(51_000, None), (1_000, 2_000)]
    assert (trace.view().covered_since, trace.of(B).view().covered_since) == (trace.clock(60), trace.clock(60))


def test_a_pull_that_expired_while_the_broker_was_frozen_is_unknown():
    trace = Standing().heart_beat(0, "a").asks(0.1, "a", 0).pulls(1, "a", 0, offset=7).commits(2, "a", 0, 7)
    for at in (*range(20, 90, 10), *range(170, 330, 10)):
        trace.heart_beat(at, "a").commits(at + 1, "a", 0, 7)
    assert trace.transitions((90, 169.9), until=289) == []
    assert trace.transitions((90, 169.9), until=300) == [(290.001, "OPENED", "PULL_EXPIRED")]
