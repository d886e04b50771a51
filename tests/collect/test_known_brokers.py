"""Brokers that a name server no longer lists: reported as such, and no longer polled after long."""

from rebalance_model.observe.events import UNREACHABLE, BrokerStatus
from streaming.base.limits import BROKER_FORGOTTEN_MS
from streaming.collect.client import RpcFailedError
from streaming.collect.known_brokers import KnownBrokers
from tests.collect.test_poll import _run
from tests.support.scripted_cluster import A, B, ScriptedCluster

HOUR = 3_600_000


def names(known: KnownBrokers) -> list[str]:
    return [broker.name for broker in known.in_use()]


def both_at(now: int) -> KnownBrokers:
    known = KnownBrokers()
    known.update([A, B], now)
    known.note(A, answers=True)
    known.note(B, answers=True)
    return known


def test_a_broker_neither_listed_nor_answering_is_forgotten_after_long():
    known = both_at(0)
    known.note(B, answers=False)
    known.update([A], BROKER_FORGOTTEN_MS - 1)
    assert names(known) == [A.name, B.name]
    known.update([A], BROKER_FORGOTTEN_MS)
    assert (names(known), known.silent) == ([A.name], set())


def test_a_broker_that_answers_unlisted_is_kept():
    """The near miss: it can't reach the name server."""
    known = both_at(0)
    for hour in range(100):
        known.update([A], hour * HOUR)
    assert names(known) == [A.name, B.name]


def test_a_broker_that_is_listed_and_does_not_answer_is_kept():
    known = both_at(0)
    known.note(B, answers=False)
    for hour in range(100):
        known.update([A, B], hour * HOUR)
    assert names(known) == [A.name, B.name]


def test_while_no_name_server_answers_no_broker_is_forgotten():
    known = both_at(0)
    known.note(B, answers=False)
    known.note_unlisted()
    assert known.is_listed(B.place) is None
    assert names(known) == [A.name, B.name]


def test_a_forgotten_broker_that_is_listed_again_is_polled():
    known = both_at(0)
    known.note(B, answers=False)
    known.update([A], BROKER_FORGOTTEN_MS)
    known.update([A, B], BROKER_FORGOTTEN_MS + 1)
    assert names(known) == [A.name, B.name]
    assert known.is_listed(B.place) is True


def test_a_status_says_whether_a_broker_that_does_not_answer_is_listed():
    cluster = ScriptedCluster(brokers=[A, B])

    async def talk(poller):
        await poller.round()
        cluster.failures = {("broker_status", B.name): RpcFailedError(UNREACHABLE, "away")}
        await poller.round()
        cluster.known = [A]
        await poller.round()  # learns of it
        await poller.round()
        cluster.failures["brokers", ""] = RpcFailedError(UNREACHABLE, "no name server")
        await poller.round()  # learns of that
        await poller.round()

    events = [e for e in _run(cluster, talk) if isinstance(e, BrokerStatus)]
    assert {e.listed for e in events if e.broker == A.name} == {None}  # it answers
    found = [e.listed for e in events if e.broker == B.name]
    assert (found[:2], found[3], found[-1]) == ([None, True], False, None)
