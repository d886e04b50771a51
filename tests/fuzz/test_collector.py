"""Mutated answers, frames and addresses through the whole collector, over TCP, beside a healthy group.

One server is a cluster in which the clients of one group answer anything, and whose name server lists mutated
addresses; the other is a registered broker that sends mutated frames.
"""

import asyncio
import json
import random
from itertools import count, takewhile

import pytest

from rebalance_model.observe.events import ConsumerRunningInfo, GroupEvent
from rebalance_model.observe.events.decoding import decode
from streaming.base.settings import load_settings
from streaming.collect.collector import RoundSchedule, collect
from streaming.collect.reading import Reading
from streaming.collect.requests import ReadCode
from streaming.log.rows import encode as line_of
from tests.fuzz.conftest import SECONDS_MAX, resident_bytes
from tests.fuzz.mutations import mutated, operations_of
from tests.fuzz.samples import ANSWERS
from tests.support.counted_cluster import BROKER, CountedCluster, answered
from tests.support.odd_cluster import CLUSTER, HEALTHY, ODD, OddCluster

BODIES = list(ANSWERS.values())
CLIENTS, MANY_CLIENTS, ADDRESSES = 60, 1_000, 12
ADDRESS = b'"127.0.0.1:10911"'


class Mutants:
    """Draws mutants, the same ones for the same seed, and counts them."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.count = 0

    def of(self, sample, samples=BODIES):
        self.count += 1
        return mutated(sample, operations_of(self.random), samples)


class MutatedCluster(OddCluster):
    """A cluster whose odd group has many clients that answer mutants, and many brokers at mutated addresses."""

    def __init__(self, mutants, evil, clients):
        super().__init__(self.odd)
        self.members[ODD] = [f"odd-{number}" for number in range(clients)]
        self._mutants, self._evil = mutants, evil

    def odd(self, question):
        group = (question.fields or {}).get("consumerGroup")
        if question.code == ReadCode.GET_BROKER_CLUSTER_INFO:
            return answered(question, self._brokers_listed())
        if group != ODD:
            return None
        if question.code == ReadCode.GET_CONSUMER_CONNECTION_LIST and self._mutants.random.random() < 0.5:
            return None  # else its clients would hardly be asked
        return answered(question, self._mutants.of(ANSWERS[ReadCode(question.code)]))

    def _brokers_listed(self):
        healthy = f'"{BROKER}":{{"brokerName":"{BROKER}","cluster":"{CLUSTER}","brokerAddrs":{{0:"{self.address}"}}}}'
        evil = f'"evil":{{"brokerName":"evil","cluster":"{CLUSTER}","brokerAddrs":{{0:"{self._evil}"}}}}'
        others = [
            f'"b{number}":{{"brokerName":"b{number}","cluster":"{CLUSTER}","brokerAddrs":{{0:'.encode()
            + self._value() + b"}}"
            for number in range(ADDRESSES)
        ]  # fmt: skip
        return b'{"brokerAddrTable":{' + b",".join([healthy.encode(), evil.encode(), *others]) + b"}}"

    def _value(self):
        """Return a mutated address: a name server writes any text that was registered, but as JSON's text."""
        value = self._mutants.of(ADDRESS, [ADDRESS])
        try:
            is_text = isinstance(json.loads(value), str)
        except (ValueError, RecursionError):
            is_text = False
        return value if is_text else b'"127.0.0.1:0"'


class MutatedBroker(CountedCluster):
    """A broker whose frames are mutants."""

    def __init__(self, mutants):
        super().__init__(["evil-group"])
        self._mutants = mutants

    def frame(self, question):
        frame = super().frame(question)
        return self._mutants.of(frame, [frame]) if self._mutants.random.random() < 0.8 else frame


def run(seed, rounds, clients):
    """Run some rounds; return how many mutants were sent, the events, and the summaries."""
    mutants, events, summaries = Mutants(seed), [], []
    with MutatedBroker(mutants) as evil, MutatedCluster(mutants, evil.address, clients) as cluster:
        collector = {"name_servers": [cluster.address], "interval_ms": 1_000, "deadline_ms": 1_500}
        settings = load_settings(collector=collector | {"stacks_after_ms": 1})
        asyncio.run(collect(settings, events.extend, rounds=rounds, report=summaries.append))
    return mutants.count, events, summaries


@pytest.fixture
def slowest(monkeypatch):
    """Begin each round at once, and note the longest time that an answer took."""
    monkeypatch.setattr(RoundSchedule, "wait", lambda *_: 0.0)
    longest = [0.0]
    timed = Reading._timed

    def noted(self, server, subject, what, body):
        before = self._subjects.taken[subject]
        try:
            return timed(self, server, subject, what, body)
        finally:
            longest[0] = max(longest[0], self._subjects.taken[subject] - before)

    monkeypatch.setattr(Reading, "_timed", noted)
    return longest


def check(seeds, rounds, slowest, tally, clients=CLIENTS):
    before = None
    for seed in seeds:
        sent, events, summaries = run(seed, rounds, clients)
        assert len(summaries) == rounds, f"seed {seed}"
        answers = [event for event in events if isinstance(event, ConsumerRunningInfo) and event.group == HEALTHY]
        assert [(event.error, len(event.queues)) for event in answers] == [(None, 2)] * 2 * rounds, f"seed {seed}"
        for event in events:
            decode(line_of(event), key=None, stamp=2**62, keyed=False)
        tally.add("mutants", sent)
        tally.add("events", sum(isinstance(event, GroupEvent) for event in events))
        before = before or resident_bytes()
    assert slowest[0] < SECONDS_MAX
    tally.slowest = slowest[0]
    assert resident_bytes() - before < 200_000_000


def test_mutants_end_no_round_and_change_no_healthy_group(slowest, tally):
    check(range(3), 3, slowest, tally)


@pytest.mark.prove
def test_200_000_mutants_end_no_round_and_change_no_healthy_group(slowest, tally):
    seeds = takewhile(lambda _: tally.counts["mutants"] < 200_000, count())
    check(seeds, 12, slowest, tally, MANY_CLIENTS)
