import asyncio

import pytest

from rebalance_model.observe.decoding import VALUE_BYTES_MAX
from rebalance_model.observe.events import ConsumeStats, RpcError, Tick
from streaming.base.errors import UserError
from streaming.collect.emitter import Emitter, UnsendableError


class _Clock:
    def __init__(self, *times):
        self.times = list(times)

    def __call__(self):
        return self.times.pop(0) if len(self.times) > 1 else self.times[0]


def _emitter(*times):
    return Emitter("poll-1", _Clock(1000, *times))


def _sent(emitter):
    async def send():
        batches = []
        emitter.finish()
        await emitter.send(batches.append)
        return [event for batch in batches for event in batch]

    return asyncio.run(send())


def test_a_source_is_named_after_its_start():
    assert _emitter(2000).source_id == "poll-1@1000"


def test_seq_counts_by_group_and_separately_for_broadcasts():
    emitter = _emitter(2000)
    for cluster, group in [("A", "g"), ("A", None), ("A", "h"), ("A", "g"), ("B", "g"), ("B", None)]:
        if group is None:
            emitter.emit(Tick, cluster=cluster)
        else:
            emitter.emit(ConsumeStats, cluster=cluster, group=group, queues=[])
    assert [event.seq for event in _sent(emitter)] == [1, 1, 1, 2, 1, 2]


def test_time_never_decreases_even_if_the_clock_does():
    emitter = _emitter(2000, 1500, 2500)
    for _ in range(3):
        emitter.emit(Tick, cluster="C")
    assert [event.time for event in _sent(emitter)] == [2000, 2000, 2500]


def test_events_are_sent_in_order_and_a_tick_after_what_it_covers():
    emitter = _emitter(2000)
    emitter.emit(ConsumeStats, cluster="C", group="g", queues=[])
    emitter.emit(Tick, cluster="C")
    emitter.emit(ConsumeStats, cluster="C", group="g", error=RpcError(code=-2))
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
    emitter = _emitter(2000)
    with pytest.raises(UnsendableError):
        emitter.emit(ConsumeStats, cluster="C", group="g", queues=queues)
    emitter.emit(ConsumeStats, cluster="C", group="g", queues=[])
    assert [event.seq for event in _sent(emitter)] == [1]


def test_a_failing_sink_ends_the_emitter():
    emitter = _emitter(2000)
    emitter.emit(Tick, cluster="C")

    def full(_):
        raise UserError("the disk is full")

    with pytest.raises(UserError, match="disk is full"):
        asyncio.run(emitter.send(full))
