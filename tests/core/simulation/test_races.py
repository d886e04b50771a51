"""Events at the wrong moment: between a question and its answer, while something else is under way or gone."""

import pytest

from rebalance_model.allocation import strategy
from rebalance_model.entities import MessageQueue, queue_order
from rebalance_model.observe.events import ConsumerRunningInfo, ConsumeStats, PullMessage, TopicRoute
from simulation.client import OwnedQueues
from simulation.cluster import START
from simulation.message_log import SentBackLog
from simulation.name_server import NameServer
from simulation.process import ProcessState
from simulation.shared_strategy import SharedStrategy
from simulation.truth import Consumed, Locked, Owned
from tests.support.simulated import shares, simulate, small, truth

MQ = MessageQueue("Orders", "broker-a", 0)
CONCURRENT = [{"name": "g", "called": "c", "topics": ["Orders"], "consumers": 3}]


def _spawn(cluster, task, name="c-1"):
    cluster.clients[name].process.spawn(task)
    cluster.run_until(cluster.seconds + 1)


# Connections


def test_a_connection_made_while_the_broker_stops_is_closed():
    cluster = simulate(small(), until=40.0).cluster
    broker, client = cluster.brokers["broker-a"], cluster.clients["c-1"]
    channel = cluster.world.network.connect(client, broker)
    broker.stop()
    cluster.run_until(41)
    assert (channel.open_at_client, channel.open_at_broker) == (False, False)


def test_a_client_with_a_closed_connection_ends_without_a_request():
    run = simulate(
        small(
            {"at": 60, "do": "stop-broker", "broker": "broker-a", "lasts": 20},
            {"at": 65, "do": "kill", "who": "c-2"},
            {"at": 66, "do": "leave", "who": "c-3"},
        ),
        until=70.0,
    )
    lives = {name: client.process.state for name, client in run.cluster.clients.items()}
    assert lives == {"c-1": ProcessState.RUNNING, "c-2": ProcessState.DEAD, "c-3": ProcessState.DEAD}
    run.cluster.run_until(150)
    assert set(shares(run.cluster)) == {"c-1"}


def test_a_frozen_client_can_not_leave_and_is_not_started_twice():
    run = simulate(
        small(
            {"at": 40, "do": "freeze", "who": "c-1", "lasts": 40},
            {"at": 45, "do": "leave", "who": "c-1", "lasts": 10},
        ),
        until=60.0,
    )
    frozen = run.cluster.clients["c-1"]
    assert frozen.process.state is ProcessState.FROZEN
    run.cluster.run_until(90)
    assert run.cluster.clients["c-1"] is frozen
    assert frozen.process.state is ProcessState.DEAD, "after the thaw it ends as requested"


# Locks


def test_a_lock_that_another_holds_is_not_given_back():
    cluster = simulate(small(), until=40.0).cluster
    theirs = MessageQueue("Orders", "broker-a", 7)
    _spawn(cluster, cluster.clients["c-1"].brokers.unlock_batch_mq("broker-a", "g", {theirs}))
    assert cluster.brokers["broker-a"].locks.mq_lock_table["g"][theirs].client_id.endswith("c-3")
    [lock] = [one for one in cluster.world.truth.records if isinstance(one, Locked) and one.queue == theirs]
    assert lock.end is None


def test_a_queue_that_returns_to_its_hanging_listener_waits_for_it():
    run = simulate(
        small(
            {"at": 60, "do": "hang", "who": "c-1", "queue": 2, "lasts": 200},
            {"at": 70, "do": "join", "who": "c-4", "group": "g", "lasts": 80},
        )
    )
    mine = [
        one
        for one in run.cluster.world.truth.records
        if isinstance(one, Consumed) and one.client_id.endswith("c-1") and one.queue.queue_id == 2
    ]
    assert not [one for one in mine if START + 62_000 < one.begin < START + 259_000]
    assert max(one.end for one in mine) > START + 290_000, "then it goes on"


def test_a_lock_held_by_a_stranger_stops_a_queue_at_rest_too():
    outcomes = []
    for every_step in (True, False):
        run = simulate(small(), until=45.0, hook=False, every_step=every_step)
        broker = run.cluster.brokers["broker-a"]
        broker.locks.unlock_batch("g", [MQ], "127.0.0.1@c-1")
        broker.locks.try_lock_batch("g", [MQ], "stranger", broker.clock.now())
        run.cluster.run_until(90)
        assert not run.cluster.clients["c-1"].owned[MQ].locked
        run.cluster.run_until(200)
        outcomes.append((run.events, truth(run.cluster)))
    assert outcomes[0] == outcomes[1]
    mine = [one for one in run.cluster.world.truth.records if isinstance(one, Consumed) and one.queue == MQ]
    assert mine[-1].end > START + 150_000, "the stranger renews nothing, so 60 s later the lock is to be had again"


# Members come and go


def test_a_concurrent_member_that_leaves_gives_its_queues_back_at_once():
    run = simulate(small({"at": 60, "do": "leave", "who": "c-1"}, groups=CONCURRENT), until=65.0)
    assert shares(run.cluster) == {"c-2": [0, 1, 2, 3], "c-3": [4, 5, 6, 7]}
    left = [one.end for one in run.cluster.world.truth.records if isinstance(one, Owned) and one.end is not None]
    assert START + 60_000 <= max(left) < START + 61_100


def test_taking_out_a_queue_that_does_not_exist_changes_nothing():
    cluster = simulate(small(), until=40.0).cluster
    owned, before = cluster.clients["c-1"].owned, truth(cluster)
    assert isinstance(owned, OwnedQueues)
    assert owned.pop(MessageQueue("Orders", "broker-a", 7), None) is None
    assert truth(cluster) == before


def test_a_second_shutdown_of_a_broker_is_an_error():
    steps = [{"at": at, "do": "stop-broker", "broker": "broker-a", "lasts": 20} for at in (60, 70)]
    with pytest.raises(ValueError, match="broker-a is down at 70 s"):
        simulate(small(*steps))


# Commits on their way


@pytest.mark.parametrize(
    "step",
    [
        {"do": "hang", "who": "c-1", "lasts": 20},
        {"do": "stop-broker", "broker": "broker-a", "lasts": 20},
    ],
    ids=["arrives", "is lost with its connection"],
)
def test_a_commit_that_is_on_its_way_when_a_queue_at_rest_is_woken(step):
    until = simulate(small(), until=60.0, hook=False).cluster
    sent = until.clients["c-1"].left_out[-1] + 5_000_000
    at = (sent - START * 1_000 + 50) / 1_000_000  # 0.05 ms later; a way takes 0.1 ms at least
    run = small({"at": at, **step})
    simulated, computed = (simulate(run, hook=False, every_step=every) for every in (True, False))
    assert computed.events == simulated.events
    assert truth(computed.cluster) == truth(simulated.cluster)


# A round of the collector, which asks a broker at 32.000 s and its group's members from 32.006 s on


def _round(run, kind):
    return [one for one in run.of(kind) if START + 32_000 <= one.time < START + 32_500]


def test_a_route_that_has_gone_since_its_broker_answered_is_an_error():
    run = simulate(small({"at": 32.0045, "do": "stop-broker", "broker": "broker-a"}), until=41.0)
    [route] = _round(run, TopicRoute)
    assert (route.error.code, route.queues) == (17, None)
    [stats] = _round(run, ConsumeStats)
    assert stats.error is None


def test_a_broker_that_stops_before_the_clients_answer_is_unreachable():
    run = simulate(small({"at": 32.0045, "do": "stop-broker", "broker": "broker-a"}), until=41.0)
    assert {one.error.code for one in _round(run, ConsumerRunningInfo)} == {-1}


def test_a_member_that_dies_before_its_broker_can_ask_it_is_not_online():
    run = simulate(small({"at": 32.0035, "do": "kill", "who": "c-1"}), until=41.0)
    answers = {one.client_id.rpartition("@")[2]: one.error for one in _round(run, ConsumerRunningInfo)}
    assert answers["c-2"] is answers["c-3"] is None
    assert answers["c-1"].code == 1
    assert "not online" in answers["c-1"].remark


# Parts that many use


def test_the_pulls_of_two_groups_of_one_queue_are_summed_each_by_itself():
    groups = [{"name": name, "topics": ["Orders"], "consumers": 1} for name in ("g", "h")]
    run = simulate(small(groups=groups), until=60.0)
    of_queue = [one for one in run.of(PullMessage) if one.topic == "Orders" and one.queue_id == 0]
    channels = {one.group: {two.channel for two in of_queue if two.group == one.group} for one in of_queue}
    assert set(channels) == {"g", "h"}
    assert not channels["g"] & channels["h"]


def test_a_stopped_broker_removes_only_the_routes_of_its_own_topics():
    name_server = NameServer()
    name_server.register("T", "a", 1)
    name_server.register("U", "b", 1)
    name_server.unregister("a")
    assert name_server.route("T") is None
    assert [queue.broker for queue in name_server.route("U")] == ["b"]


def test_a_retry_log_that_stops_keeps_what_has_come():
    log = SentBackLog()
    for time in (10, 20, 30):
        log.append(time)
    log.stop(20)
    assert log.max_offset(99) == 2


def test_a_shared_strategy_divides_as_its_own_for_any_number_of_views():
    shared, alone = SharedStrategy(strategy("AVG")), strategy("AVG")
    assert (shared.name, shared.java_class) == (alone.name, alone.java_class)
    mq_all = sorted((MessageQueue("T", "b", queue_id) for queue_id in range(7)), key=queue_order)
    for count in range(1, 300):
        members = [f"c-{number:03}" for number in range(count)]
        assert shared.allocate("g", members[-1], mq_all, members) == alone.allocate("g", members[-1], mq_all, members)
