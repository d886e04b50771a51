"""Brokers: which address and replica of one is polled, and for how long after a name server has listed it last."""

import pytest

from rebalance_model.observe.events import UNREACHABLE, BrokerStatus, ConsumerConnection, ConsumerRunningInfo, Tick
from streaming.base.limits import BROKER_FORGOTTEN_MS
from streaming.collect.client import RpcFailedError
from streaming.collect.cluster_responses import ListedBroker
from streaming.collect.known_brokers import KnownBrokers
from tests.support.polling import of_kinds, polled
from tests.support.scripted_cluster import A, B, ScriptedCluster

HOUR = 3_600_000


def names(brokers: KnownBrokers) -> list[str]:
    return [broker.name for broker in brokers.in_use()]


def both_at(now: int) -> KnownBrokers:
    brokers = KnownBrokers()
    brokers.update([A, B], now)
    brokers.note_answer(A.place)
    brokers.note_answer(B.place)
    return brokers


def test_a_broker_neither_listed_nor_answering_is_forgotten_after_long():
    brokers = both_at(0)
    brokers.note_silent(B.place)
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
    brokers.note_silent(B.place)
    for hour in range(100):
        brokers.update([A, B], hour * HOUR)
    assert names(brokers) == [A.name, B.name]


def test_while_no_name_server_answers_no_broker_is_forgotten():
    brokers = both_at(0)
    brokers.note_silent(B.place)
    brokers.note_unlisted()
    assert brokers.is_listed(B.place) is None
    assert names(brokers) == [A.name, B.name]


def test_a_forgotten_broker_that_is_listed_again_is_polled():
    brokers = both_at(0)
    brokers.note_silent(B.place)
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


def broker(number: int) -> ListedBroker:
    return ListedBroker("C", f"b{number}", f"h:{number}")


def test_silent_brokers_that_have_answered_come_before_the_others():
    brokers = KnownBrokers()
    brokers.update(map(broker, range(7)), 0)
    for number in (0, 1, 2):
        brokers.note_answer(broker(number).place)
    for number in (3, 4):
        brokers.note_silent(broker(number).place)
    brokers.note_silent(broker(1).place)
    brokers.note_silent(broker(0).place)  # it has answered until now
    turns = brokers.turns()
    names = [[name for _, name in places] for places in turns]
    assert names == [["b2"], ["b5", "b6"], ["b0", "b1"], ["b3", "b4"]]


def test_brokers_that_never_answered_take_turns():
    brokers = KnownBrokers()
    brokers.update(map(broker, range(3)), 0)
    for number in (0, 1, 2, 0):
        brokers.note_silent(broker(number).place)
    assert [name for _, name in brokers.turns().silent] == ["b1", "b2", "b0"]


def test_any_answer_ends_the_silence_of_a_broker():
    brokers = both_at(0)
    brokers.note_silent(B.place)
    brokers.begin(B.place)
    assert (brokers.is_heard(B.place), B.place in brokers.silent) == (False, True)
    brokers.note_answer(B.place)
    assert (brokers.is_heard(B.place), B.place in brokers.silent) == (True, False)
    assert brokers.turns().answering == [A.place, B.place]


def test_a_silent_broker_is_probed_until_it_answers_anything():
    cluster = ScriptedCluster(brokers=[A, B])

    async def talk(poller):
        await poller.round()
        for question in ("groups", "broker_status", "connection", "consume_stats"):
            cluster.failures[question, B.name] = RpcFailedError(UNREACHABLE, "away")
        assert [(await poller.round()).silent for _ in range(2)] == [1, 1]
        cluster.asked.clear()
        await poller.round()
        assert [question for question, about in cluster.asked if about == B.name] == ["groups", "broker_status"]
        del cluster.failures["broker_status", B.name], cluster.failures["connection", B.name]
        poller.tick()
        assert (await poller.round()).silent == 0

    events = polled(cluster, talk)
    last = events[[isinstance(event, Tick) for event in events].index(True) :]
    found = [event.error for event in last if isinstance(event, ConsumerConnection) and event.broker == B.name]
    assert found == [None]


def test_a_broker_that_has_no_turn_is_not_called_silent(monkeypatch):
    monkeypatch.setattr("streaming.collect.poll.SILENT_PROBES", 1)
    cluster = ScriptedCluster(brokers=[A, *(ListedBroker("C", f"evil-{n}", f"e:{n}") for n in range(5))])
    for number in range(5):
        for question in ("groups", "broker_status"):
            cluster.delays[question, f"evil-{number}"] = 60

    async def talk(poller):
        summaries = [await poller.round() for _ in range(3)]
        assert [(one.silent, one.not_asked) for one in summaries] == [(5, 0), (1, 4), (1, 4)]

    events = [event for event in polled(cluster, talk, deadline_ms=300) if isinstance(event, BrokerStatus)]
    named = [event.broker for event in events if event.broker.startswith("evil")]
    assert len(named[5:]) == len(set(named[5:])) == 2
    assert len([event for event in events if event.broker == A.name and event.error is None]) == 3


@pytest.mark.parametrize(
    ("former", "failures", "boots"),
    [
        (5, {}, [5, 5, 9, 5, 9]),  # two brokers have the name: the one that it shows now is the last one
        (9, {}, [9, 9, 9]),  # it is one broker of two addresses
        (5, {("broker_status", "h:1"): RpcFailedError(UNREACHABLE, "refused")}, [5, 9, 9]),  # it has moved
    ],
)
def test_a_names_former_address_is_asked_while_it_answers(former, failures, boots):
    cluster = ScriptedCluster()
    cluster.booted = {"h:1": former, "h:3": 9}

    async def talk(poller):
        await poller.round()
        cluster.listed = [A._replace(address="h:3")]
        await poller.find_brokers()
        cluster.failures = failures
        for _ in range(2):
            await poller.round()

    events = polled(cluster, talk)
    assert [event.boot_time for event in events if isinstance(event, BrokerStatus)] == boots
    assert {event.broker for event in events if isinstance(event, BrokerStatus)} == {"broker-a"}


def test_a_broker_that_shares_a_name_may_miss_two_requests():
    cluster = ScriptedCluster()
    cluster.booted = {"h:1": 5, "h:3": 9}

    async def talk(poller):
        await poller.round()
        cluster.listed = [A._replace(address="h:3")]
        await poller.find_brokers()
        for number in range(6):
            away = number in {1, 2} or number > 3
            cluster.failures = {("broker_status", "h:1"): RpcFailedError(UNREACHABLE, "refused")} if away else {}
            await poller.round()

    boots = [event.boot_time for event in polled(cluster, talk) if isinstance(event, BrokerStatus)]
    assert boots == [5, 5, 9, 9, 9, 5, 9, 9, 9]


def test_of_two_brokers_of_one_name_it_is_said_first_which_answers():
    cluster = ScriptedCluster()
    cluster.booted = {"h:1": 5, "h:3": 9}

    async def talk(poller):
        await poller.round()
        cluster.listed = [A._replace(address="h:3")]
        await poller.find_brokers()
        cluster.delays = {("broker_status", "broker-a"): 0.2}
        poller.tick()
        await poller.round()
        await poller.drain()

    kinds = of_kinds(polled(cluster, talk))
    last = kinds[kinds.index(Tick) + 1 :]
    assert last[:2] == [BrokerStatus, BrokerStatus]


def test_a_slave_is_asked_for_what_needs_no_master_until_that_is_back():
    cluster = ScriptedCluster()

    async def talk(poller):
        await poller.round()
        cluster.listed = [A._replace(address="h:9", broker_id=1, is_master=False)]
        cluster.failures = {("broker_status", "broker-a"): RpcFailedError(UNREACHABLE, "away")}
        await poller.round()  # learns of it
        await poller.round()
        cluster.listed, cluster.failures = [A], {}
        await poller.round()
        await poller.round()

    events = [event for event in polled(cluster, talk) if event.broker]
    asked = [(event.broker_id, event.error is None) for event in events if isinstance(event, BrokerStatus)]
    assert asked == [(0, True), (0, False), (0, False), (0, True), (0, True)]
    assert [event.broker_id for event in events if isinstance(event, ConsumerConnection)] == [0, 0, 1, 1, 0]
    assert {event.broker_id for event in events if isinstance(event, ConsumerRunningInfo)} == {0, 1}


def test_a_slave_that_acts_as_master_is_asked_for_everything():
    cluster = ScriptedCluster(brokers=[A._replace(broker_id=2)])
    assert {event.broker_id for event in polled(cluster) if event.broker} == {2}


def test_a_broker_whose_master_was_never_known_is_unreachable():
    events = polled(ScriptedCluster(brokers=[A._replace(broker_id=1, is_master=False)]))
    (status,) = (event for event in events if isinstance(event, BrokerStatus))
    assert (status.broker_id, status.error.code) == (0, UNREACHABLE)
    assert len([event for event in events if isinstance(event, ConsumerRunningInfo)]) == 2
