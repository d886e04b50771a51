import asyncio

import pytest

from rebalance_model.observe.events import ConsumeStats, RpcError, Tick
from rebalance_model.observe.events.decoding import VALUE_BYTES_MAX
from streaming.base.errors import UserError
from streaming.collect.emitter import Emitter, UnsendableError


class _Host:
    """The two clocks of a host."""

    def __init__(self, wall=1000):
        self.wall, self.up = wall, 5

    def passes(self, ms, *, set_by=0):
        self.wall, self.up = self.wall + ms + set_by, self.up + ms
        return self


def _emitter(host=None):
    host = host or _Host()
    return Emitter("poll-1", lambda: host.wall, lambda: host.up)


def _sent(emitter):
    async def send():
        batches = []
        emitter.finish()
        await emitter.send(batches.append)
        return [event for batch in batches for event in batch]

    return asyncio.run(send())


def test_a_source_is_named_after_its_start():
    assert _emitter().source_id == "poll-1@1000"


def test_seq_counts_by_group_and_separately_for_broadcasts():
    emitter = _emitter()
    for cluster, group in [("A", "g"), ("A", None), ("A", "h"), ("A", "g"), ("B", "g"), ("B", None)]:
        if group is None:
            emitter.emit(Tick, cluster=cluster)
        else:
            emitter.emit(ConsumeStats, broker="b", cluster=cluster, group=group, queues=[])
    assert [event.seq for event in _sent(emitter)] == [1, 1, 1, 2, 1, 2]


def test_a_clock_that_is_set_back_is_followed_in_every_cluster():
    host = _Host(wall=3_600_000)
    emitter = _emitter(host)
    for cluster in ("A", "B"):
        emitter.emit(Tick, cluster=cluster)
    host.passes(1_000, set_by=-3_000_000)
    emitter.emit(Tick, cluster="A")
    host.passes(1_000)
    emitter.emit(Tick, cluster="A")
    found = [(event.time, event.cluster, getattr(event, "step", None), event.seq) for event in _sent(emitter)]
    steps = [(601_000, "A", -3_000_000, 3), (601_000, "B", -3_000_000, 4)]
    assert found[2:] == [*steps, (601_000, "A", None, 5), (602_000, "A", None, 6)]


@pytest.mark.parametrize("set_by", [3_600_000, -600_000, 56 * 31_536_000_000])
def test_what_was_asked_before_a_clock_was_set_is_as_long_ago_as_it_was(set_by):
    host = _Host(wall=1_000_000)
    emitter = _emitter(host)
    asked = emitter.clock.steady()
    host.passes(200, set_by=set_by)
    emitter.follow_clock()
    assert emitter.clock.now() - emitter.clock.time_of(asked) == 200
    assert emitter.clock.now() == host.wall


def test_a_clock_that_is_set_by_less_than_a_quarter_second_is_not_followed():
    host = _Host()
    emitter = _emitter(host)
    for ms in (100, -200, 240):
        emitter.emit(Tick, cluster="C")
        host.passes(1_000, set_by=ms - (host.wall - 1_000 - host.up + 5))
    emitter.emit(Tick, cluster="C")
    assert [(type(event), event.time) for event in _sent(emitter)] == [(Tick, 1_000 * n) for n in range(1, 5)]


def test_a_clock_that_is_set_before_the_first_event_needs_no_report():
    host = _Host()
    emitter = _emitter(host)
    host.passes(1_000, set_by=50_000)
    emitter.emit(Tick, cluster="C")
    assert [(type(event), event.time) for event in _sent(emitter)] == [(Tick, 52_000)]


def test_a_process_that_stops_between_two_clocks_has_not_seen_a_step():
    readings = [0, 0, 0, 100, 400, 500]  # of the monotonic clock: at the start, and around the host's
    emitter = Emitter("poll-1", lambda: 1_000, lambda: readings.pop(0) if len(readings) > 1 else readings[0])
    emitter.emit(Tick, cluster="C")
    assert [type(event) for event in _sent(emitter)] == [Tick]


def test_events_are_sent_in_order_and_a_tick_after_what_it_covers():
    emitter = _emitter()
    emitter.emit(ConsumeStats, broker="b", cluster="C", group="g", queues=[])
    emitter.emit(Tick, cluster="C")
    emitter.emit(ConsumeStats, broker="b", cluster="C", group="g", error=RpcError(code=-2))
    assert [type(event) for event in _sent(emitter)] == [ConsumeStats, Tick, ConsumeStats]


@pytest.mark.parametrize(
    "queues",
    [
        [{"mq": {"topic": "T", "broker": "b", "queue_id": -1}, "broker_offset": 0, "consumer_offset": 0}],
        [{"mq": {"topic": "T", "broker": "b", "queue_id": 0}, "broker_offset": 2**63, "consumer_offset": 0}],
        [
            {
                "mq": {"topic": "T" * VALUE_BYTES_MAX, "broker": "b", "queue_id": 0},
                "broker_offset": 0,
                "consumer_offset": 0,
            }
        ],
        [{"mq": {"topic": "\ud800", "broker": "b", "queue_id": 0}, "broker_offset": 0, "consumer_offset": 0}],
    ],
)
def test_an_invalid_event_is_refused_and_leaves_no_gap_in_seq(queues):
    emitter = _emitter()
    with pytest.raises(UnsendableError):
        emitter.emit(ConsumeStats, broker="b", cluster="C", group="g", queues=queues)
    emitter.emit(ConsumeStats, broker="b", cluster="C", group="g", queues=[])
    assert [event.seq for event in _sent(emitter)] == [1]


def test_a_failing_sink_ends_the_emitter():
    emitter = _emitter()
    emitter.emit(Tick, cluster="C")

    def full(_):
        raise UserError("the disk is full")

    with pytest.raises(UserError, match="disk is full"):
        asyncio.run(emitter.send(full))
