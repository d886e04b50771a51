"""Mutated answers of name servers, brokers and clients: the collector's round goes on, and sends only valid events."""

import asyncio
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from rebalance_model.observe.events.decoding import decode
from streaming.base.settings import load_settings
from streaming.collect.client import RpcFailedError
from streaming.collect.emitter import Emitter
from streaming.collect.poll import Poller
from streaming.collect.remoting import FrameError, RemotingCommand, frame_length
from streaming.collect.remoting import decode as decode_frame
from streaming.collect.rpc import Rpc
from streaming.log.rows import encode as line_of
from tests.fuzz.forms import fuzzed
from tests.fuzz.mutations import mutants, mutated, operations
from tests.fuzz.samples import ANSWERS
from tests.support.binary_frames import FORMS, frame_in

BODIES = list(ANSWERS.values())
SETTINGS = load_settings().collector.model_copy(update={"consume_time_span": True, "deadline_ms": 60_000})
FRAMES = [
    frame_in(form, RemotingCommand(code=0, opaque=7, flag=1, language="JAVA", version=493, body=body, **more))
    for body in BODIES[:4]
    for form in FORMS
    for more in ({}, {"remark": "no route info of this topic", "fields": {"topic": "Orders", "n": "1"}})
]


class Cluster:
    """Stands for `RemotingClient`: each request gets its recorded answer, or the mutant of that."""

    def __init__(self, mutants):
        self.mutants = mutants

    async def ask(self, address, request, read, *, seconds, is_forwarded=False):
        del address, seconds, is_forwarded
        steps = self.mutants.get(request.code)
        body = ANSWERS[request.code]
        return await read(mutated(body, steps, BODIES) if steps else body)

    async def forget(self, addresses):
        del addresses


async def collect(cluster):
    """Return the events of two rounds, as the collector makes them."""
    emitter = Emitter("poll-1")
    poller = Poller(Rpc(cluster, ("ns:1",)), emitter, SETTINGS)
    with suppress(RpcFailedError):
        await poller.find_brokers()
    if not poller.clusters:  # nothing of the brokers could be read
        cluster.mutants = {}
        await poller.find_brokers()
    for _ in range(2):
        await poller.round()
        await poller.drain()
        poller.tick()
    poller.tick(end=True)
    emitter.finish()
    batches = []
    await emitter.send(batches.append)
    return [event for batch in batches for event in batch]


@given(changes=st.dictionaries(st.sampled_from(list(ANSWERS)), operations(), min_size=1, max_size=4))
@fuzzed(short=60, long=10_000)
def test_a_round_with_mutated_answers_sends_only_valid_events(changes, tally, form):
    events = asyncio.run(collect(Cluster(changes)))
    for event in events:
        decode(line_of(event), key=None, stamp=2**62, keyed=False)
    assert events
    tally.add("answers in a round", len(changes))


@given(code=st.sampled_from(list(ANSWERS)), steps=operations(6))
@fuzzed(short=200, long=30_000)
def test_a_mutated_answer_is_read_in_time_or_refused(code, steps, tally, form):
    rpc = Rpc(Cluster({code: steps}), ("ns:1",))
    broker = type("Broker", (), {"address": "b:1"})()
    calls = {
        28: lambda: rpc.broker_status(broker, "poll-1@1", 9),
        105: lambda: rpc.route("Orders", 9),
        106: lambda: rpc.brokers(9),
        201: lambda: rpc.groups(broker, 9),
        202: lambda: rpc.topic_stats(broker, "%DLQ%orders-group", 9),
        203: lambda: rpc.connection(broker, "g", 9),
        208: lambda: rpc.consume_stats(broker, "g", 9),
        303: lambda: rpc.consume_time_span(broker, "g", "Orders", 9),
        307: lambda: rpc.running_info(broker, "g", "c", 9),
    }
    with tally.in_time():
        try:
            asyncio.run(calls[code]())
        except RpcFailedError:
            tally.add("answers refused")
        else:
            tally.add("answers read")


@given(frame=mutants(FRAMES))
@fuzzed(short=200, long=30_000)
def test_a_mutated_frame_is_read_or_refused(frame, tally, form):
    with tally.in_time():
        try:
            if len(frame) >= 4:
                frame_length(frame[:4])
            answer = decode_frame(frame[4:])
            assert answer.remark is None or len(answer.remark) <= 1_000
            tally.add("frames read")
        except FrameError:
            tally.add("frames refused")
