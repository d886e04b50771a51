"""Brokers that a name server no longer lists: reported as such, and no longer polled after long."""

from rebalance_model.observe.events import UNREACHABLE, BrokerStatus
from streaming.base.limits import BROKER_FORGOTTEN_MS
from streaming.collect.client import RpcFailedError
from streaming.collect.known_brokers import KnownBrokers
from tests.support.polling import polled
from tests.support.scripted_cluster import A, B, ScriptedCluster

HOUR = 3_600_000


def names(brokers: KnownBrokers) -> list[str]:
    return [broker.name for broker in brokers.in_use()]


def both_at(now: int) -> KnownBrokers:
    brokers = KnownBrokers()
    brokers.update([A, B], now)
    brokers.note(A, answers=True)
    brokers.note(B, answers=True)
    return brokers


def test_a_broker_neither_listed_nor_answering_is_forgotten_after_long():
    brokers = both_at(0)
    brokers.note(B, answers=False)
    brokers.update([A], BROKER_FORGOTTEN_MS - 1)
    assert names(brokers) == [A.name, B.name]
    brokers.update([A], BROKER_FORGOTTEN_MS)
    assert (names(brokers), brokers.silent) == ([A.name], set())


def test_a_broker_that_answers_unlisted_is_kept():
    """The near miss: it can't reach the name server."""
    brokers = both_at(0)
    for hour in range(100):
        brokers.update([A], hour * HOUR)
    assert names(brokers) == [A.name, B.name]


def test_a_broker_that_is_listed_and_does_not_answer_is_kept():
    brokers = both_at(0)
    brokers.note(B, answers=False)
    for hour in range(100):
        brokers.update([A, B], hour * HOUR)
    assert names(brokers) == [A.name, B.name]


def test_while_no_name_server_answers_no_broker_is_forgotten():
    brokers = both_at(0)
    brokers.note(B, answers=False)
    brokers.note_unlisted()
    assert brokers.is_listed(B.place) is None
    assert names(brokers) == [A.name, B.name]


def test_a_forgotten_broker_that_is_listed_again_is_polled():
    brokers = both_at(0)
    brokers.note(B, answers=False)
    brokers.update([A], BROKER_FORGOTTEN_MS)
    brokers.update([A, B], BROKER_FORGOTTEN_MS + 1)
    assert names(brokers) == [A.name, B.name]
    assert brokers.is_listed(B.place) is True


def test_a_status_says_whether_a_broker_that_does_not_answer_is_listed():
    cluster = ScriptedCluster(brokers=[A, B])

    async def talk(poller):
        await poller.round()
        cluster.failures = {("broker_status", B.name): RpcFailedError(UNREACHABLE, "away")}
        await poller.round()
        cluster.listed = [A]
        await poller.round()  # learns of it
        await poller.round()
        cluster.failures["brokers", ""] = RpcFailedError(UNREACHABLE, "no name server")
        await poller.round()  # learns of that
        await poller.round()

    events = [e for e in polled(cluster, talk) if isinstance(e, BrokerStatus)]
    assert {e.listed for e in events if e.broker == A.name} == {None}  # it answers
    found = [e.listed for e in events if e.broker == B.name]
    assert (found[:2], found[3], found[-1]) == ([None, True], False, None)
