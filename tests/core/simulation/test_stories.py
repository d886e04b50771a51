"""Stories of the real broker and client, played by the cluster of their models; and the observer sees them."""

import itertools

import pytest

from rebalance_model.observe.effects import RebalanceSettled
from rebalance_model.observe.events import (
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    GetConsumerListByGroup,
    HeartBeat,
    LockBatchMq,
    PullMessage,
    Tick,
)
from simulation.cluster import START
from simulation.truth import Consumed, Fault, Locked, Owned
from tests.support.simulated import SMALL, shares, simulate, small, transitions, truth

THREE = {"c-1": [0, 1, 2], "c-2": [3, 4, 5], "c-3": [6, 7]}


def _seconds(time):
    return (time - START) / 1000


def owned(run, client, queue_id, group="g"):
    """(begin, end) of each ownership, seconds."""
    return [
        (_seconds(one.begin), None if one.end is None else _seconds(one.end))
        for one in run.cluster.world.truth.records
        if isinstance(one, Owned) and one.client_id.endswith(client) and one.queue.queue_id == queue_id
        if not one.queue.is_retry
    ]


def test_a_healthy_hour_raises_nothing_and_leaves_nothing_unconsumed():
    run = simulate("healthy", hook=False)
    assert run.incidents() == set()
    assert shares(run.cluster, "orders-group") == {
        "orders-1": [0, 1, 2],
        "orders-2": [3, 4, 5],
        "orders-3": [6, 7],
    }
    assert shares(run.cluster, "audit-group") == {"audit-1": [0, 1], "audit-2": [2, 3]}
    last = {queue.mq: queue for event in run.of(ConsumeStats)[-2:] for queue in event.queues}
    assert all(row.broker_offset - row.consumer_offset <= 12 for row in last.values())
    begun = [one for one in run.cluster.world.truth.records if isinstance(one, Consumed)]
    assert all(one.first_offset == 0 for one in begun)


def test_a_joining_client_gets_its_share_and_a_leaving_one_returns_it():
    run = simulate(small({"at": 60, "do": "join", "who": "c-4", "group": "g", "lasts": 60}), until=110)
    assert shares(run.cluster) == {"c-1": [0, 1], "c-2": [2, 3], "c-3": [4, 5], "c-4": [6, 7]}
    run.cluster.run_until(125)
    assert shares(run.cluster) == THREE


def test_the_next_owner_after_a_kill_waits_up_to_60_s_for_the_locks():
    run = simulate(small({"at": 60, "do": "kill", "who": "c-2"}))
    [(_, died)] = owned(run, "c-2", 3)
    [(inherited, _)] = owned(run, "c-1", 3)
    assert died == 60
    assert 40 <= inherited - died <= 61
    [lock] = [
        one
        for one in run.cluster.world.truth.records
        if isinstance(one, Locked) and one.client_id.endswith("c-2") and one.queue.queue_id == 3
    ]
    assert (lock.end - START) / 1000 == pytest.approx(inherited, abs=0.02)
    [rebalance] = [one for one in run.effects() if isinstance(one, RebalanceSettled)]
    assert rebalance.causes == ("CLIENT_LEFT 127.0.0.1@c-2",)


def test_a_frozen_client_is_dropped_and_its_ghost_leaves_queues_unassigned():
    run = simulate("freeze")
    frozen, thawed = 60, 220
    seen = transitions(run.effects())
    names = [name for _, _, name in seen]
    assert {"LOCK_EXPIRED", "ORDERED_QUEUE_STUCK OWNER_UNRESPONSIVE"} <= set(names)
    [first, *_] = [at for at, transition, name in seen if (transition, name) == ("OPENED", "LOCK_EXPIRED")]
    assert 30 - 20 <= first - frozen <= 30 + 10 + 2

    listed = [
        ((one.time - START) / 1000, [c.client_id for c in one.connections].count("127.0.0.1@orders-3"))
        for one in run.of(ConsumerConnection)
    ]
    gone = [at for at, times in listed if times == 0 and at > 10]
    assert 90 <= gone[0] - frozen <= 140
    twice = [at for at, times in listed if times == 2]
    assert twice[0] - thawed <= 12
    assert 110 <= twice[-1] - thawed <= 132

    ghost = [at for at, _, name in seen if name == "ORDERED_QUEUE_STUCK GHOST_CONNECTION" and at > thawed]
    assert ghost, "while it is listed twice, the second share is nobody's"
    assert shares(run.cluster, "orders-group")["orders-3"] == [6, 7]


def test_a_client_frozen_for_a_while_continues_with_its_queues():
    run = simulate("thaw")
    assert run.incidents() == {"CLIENT_UNRESPONSIVE", "LOCK_EXPIRED"}
    assert [len(owned(run, "orders-3", queue)) for queue in (6, 7)] == [1, 1]


@pytest.mark.parametrize(
    ("story", "incidents"),
    [
        ("hang", {"ORDERED_QUEUE_STUCK LISTENER_HUNG"}),
        ("poison", {"ORDERED_QUEUE_STUCK SUSPEND_LOOP"}),
        ("slow-pull", {"ORDERED_QUEUE_STUCK NOT_PULLING", "PULL_EXPIRED PULL_INTERVAL"}),
        ("join", set()),
        ("leave", set()),
        ("rollout", set()),
        ("add-queues", set()),
        ("notify-loss", set()),
    ],
)
def test_a_fault_gives_the_incidents_that_it_gives_on_a_real_cluster(story, incidents):
    run = simulate(story, hook=False)
    assert run.incidents() == incidents
    assert {name for _, transition, name in transitions(run.effects()) if transition == "OPENED"} == {
        name for _, transition, name in transitions(run.effects()) if transition == "RESOLVED"
    }


def test_a_wrong_clock_causes_no_other_incident():
    run = simulate("clock-skew", hook=False)
    assert run.incidents() == {"CLOCK_SKEW BEHIND"}


def test_only_the_poisoned_queue_stops_while_its_listener_works():
    run = simulate("poison", hook=False, until=170)
    before, now = _two_answers(run, "orders-2")
    assert now[3].commit_offset == before[3].commit_offset
    assert now[3].consume_time > before[3].consume_time
    assert now[4].commit_offset > before[4].commit_offset


def _two_answers(run, client):
    answers = [one for one in run.of(ConsumerRunningInfo) if one.client_id.endswith(client)]
    return [{row.mq.queue_id: row for row in one.queues if not row.mq.is_retry} for one in answers[-2:]]


def test_the_owners_by_the_clients_answers_are_the_true_owners():
    run = simulate(small(), hook=False)
    answered = {}
    for event in run.of(ConsumerRunningInfo)[-3:]:
        answered[event.client_id.rpartition("@")[2]] = [row.mq.queue_id for row in event.queues if not row.mq.is_retry]
    assert answered == shares(run.cluster) == THREE


def test_without_notifications_each_member_rebalances_by_its_own_timer():
    steps = {"at": 60, "do": "join", "who": "c-4", "group": "g"}
    run = simulate(small(steps), until=100)
    lost = simulate(small({"at": 55, "do": "lose-notifications"}, steps), until=100)
    settled, late = (owned(one, "c-4", 7)[0][0] for one in (run, lost))
    assert settled < 64
    assert 60 < late < 83
    assert late > settled
    assert shares(lost.cluster) == shares(run.cluster)


def test_two_strategies_in_a_group_leave_some_queues_unassigned():
    run = simulate("strategy-mistake", until=200)
    had = [queue for queues in shares(run.cluster, "orders-group").values() for queue in queues]
    assert len(set(had)) == len(had) < 8


def test_two_strategies_in_a_concurrent_group_give_queues_to_two():
    groups = [{"name": "g", "called": "c", "topics": ["Orders"], "consumers": 3}]
    step = {"at": 60, "do": "join", "who": "c-4", "group": "g", "strategy": "AVG_BY_CIRCLE"}
    run = simulate(small(step, groups=groups), until=200)
    assert any(len(names) == 2 for names in run.cluster.owners("g").values())


def test_two_subscriptions_in_a_group_undo_each_other_with_every_heartbeat():
    run = simulate("subscription-mistake", hook=False)
    topics = [
        {one.topic for one in event.subscriptions if one.topic[0] != "%"}
        for event in run.of(ConsumerConnection)
        if 70_000 < event.time - START < 230_000
    ]
    assert {"Orders"} in topics
    assert {"Orders", "Refunds"} in topics
    assert sum(a != b for a, b in itertools.pairwise(topics)) > 4


def test_a_partitioned_client_is_dropped_by_one_of_two_brokers():
    run = simulate("partition", until=240)
    listed = {event.broker: {one.client_id for one in event.connections} for event in run.of(ConsumerConnection)[-2:]}
    assert listed["broker-b"] < listed["broker-a"]
    run.cluster.run_until(480)
    listed = {event.broker: {one.client_id for one in event.connections} for event in run.of(ConsumerConnection)[-2:]}
    assert listed["broker-a"] == listed["broker-b"]


def test_a_fully_partitioned_client_gets_new_queues_after_it_returns():
    run = simulate(
        small(
            {"at": 50, "do": "partition", "who": "c-1", "lasts": 60},
            {"at": 60, "do": "add-queues", "topic": "Orders", "queues": 4},
        ),
        until=105,
    )
    assert shares(run.cluster)["c-1"] == [0, 1, 2]
    run.cluster.run_until(200)
    assert shares(run.cluster) == {"c-1": [0, 1, 2, 3], "c-2": [4, 5, 6, 7], "c-3": [8, 9, 10, 11]}


def test_a_restarted_broker_has_no_locks_or_members_until_they_come_back():
    run = simulate("broker-restart", until=74)
    broker = run.cluster.brokers["broker-a"]
    assert not broker.up
    run.cluster.run_until(75.01)
    assert broker.up
    assert broker.manager.consumer_table == {}
    assert broker.locks.mq_lock_table == {}
    run.cluster.run_until(180)
    assert set(run.cluster.brokers["broker-a"].manager.consumer_table["orders-group"].client_ids()) == {
        "127.0.0.1@orders-1",
        "127.0.0.1@orders-2",
        "127.0.0.1@orders-3",
    }
    assert {str(queue) for queue in run.cluster.owners("orders-group")} == {
        f"Orders@broker-{name}:{queue_id}" for name in "ab" for queue_id in range(4)
    }


def test_a_deleted_topic_is_refused_and_begins_again_with_offset_0():
    """Its consumers keep the last route, and their queues; they pull again every 3 s."""
    run = simulate(small({"at": 60, "do": "delete-topic", "topic": "Orders", "lasts": 30}), until=89.0)
    broker, name_server = run.cluster.brokers["broker-a"], run.cluster.world.name_server
    pulls = [one for one in run.of(PullMessage) if one.topic == "Orders" and one.time > START + 80_000]
    assert {(one.queue_id, one.code) for one in pulls} == {(queue_id, 17) for queue_id in range(8)}
    assert name_server.route("Orders") is None
    assert {broker.offsets.query_offset("g", "Orders", queue_id) for queue_id in range(8)} == {-1}
    assert shares(run.cluster) == THREE

    run.cluster.run_until(180)
    assert len(name_server.route("Orders")) == 8
    begun = [one for one in run.cluster.world.truth.records if isinstance(one, Consumed) and not one.queue.is_retry]
    again = {one.queue.queue_id: one for one in begun if one.begin > START + 90_000}
    assert {one.first_offset for one in again.values()} == {0}
    assert {one.end > START + 170_000 for one in again.values()} == {True}
    assert again.keys() == set(range(8))


def test_a_topic_deleted_before_its_broker_boots_is_not_there_after_it():
    run = simulate(small({"at": 0, "do": "delete-topic", "topic": "Orders", "lasts": 20}), until=19.0)
    assert run.cluster.world.name_server.route("Orders") is None
    assert shares(run.cluster) == {}
    run.cluster.run_until(60)
    assert shares(run.cluster) == THREE


def test_ordered_consumers_that_broadcast_have_every_queue_and_lock_none():
    run = simulate(small(groups=[{**SMALL["groups"][0], "consumers": 2, "message_model": "BROADCASTING"}]), until=45.0)
    assert shares(run.cluster) == {"c-1": list(range(8)), "c-2": list(range(8))}
    assert run.of(LockBatchMq) == []
    consumed = [one for one in run.cluster.world.truth.records if isinstance(one, Consumed)]
    assert len({(one.client_id, one.queue) for one in consumed}) == 16


def test_a_pull_client_is_a_member_of_every_broker_and_has_no_queue():
    """It has subscribed no topic, so it sends its heartbeats to the brokers that it pulls from."""
    step = {"at": 30, "do": "join", "who": "tool", "group": "g", "pull_client": True, "lasts": 30}
    run = simulate(small(step, brokers=[{"name": "broker-a"}, {"name": "broker-b"}]), until=50.0)
    managers = [broker.manager for broker in run.cluster.brokers.values()]
    assert ["127.0.0.1@tool" in manager.consumer_table["g"].client_ids() for manager in managers] == [True, True]
    assert "tool" not in shares(run.cluster)
    run.cluster.run_until(61)
    assert ["127.0.0.1@tool" in manager.consumer_table["g"].client_ids() for manager in managers] == [False, False]


def test_a_concurrent_poison_message_goes_to_the_retry_topic_and_returns():
    groups = [{"name": "g", "called": "c", "topics": ["Orders"], "consumers": 2}]
    run = simulate(small({"at": 60, "do": "poison", "who": "c-1"}, groups=groups), until=65)
    broker = run.cluster.brokers["broker-a"]
    [retry] = [log for queue, log in broker.logs.items() if queue.is_retry]
    assert retry.arrival(0) is not None
    run.cluster.run_until(300)
    back = [one for one in run.cluster.world.truth.records if isinstance(one, Consumed) and one.queue.is_retry]
    assert [(one.first_offset, one.last_offset) for one in back] == [(0, 0)]
    assert back[0].begin - START == pytest.approx(70_000, abs=2_500)


def test_a_clock_that_is_slow_shows_in_the_clients_own_stamps_alone():
    run = simulate("clock-skew")
    slow = [one for one in run.of(ConsumerRunningInfo) if one.client_id.endswith("orders-4")][-1]
    assert slow.time - slow.start_time > 3_600_000
    assert all(slow.time - row.pull_time > 3_590_000 for row in slow.queues)
    assert "orders-4" in shares(run.cluster, "orders-group")


def test_every_fault_is_in_the_truth_with_its_begin_and_its_end():
    run = simulate("lab-story", hook=False)
    faults = [one for one in run.cluster.world.truth.records if isinstance(one, Fault)]
    assert [
        (one.kind, one.subject, (one.begin - START) / 1000, one.end and (one.end - START) / 1000) for one in faults
    ] == [
        ("join", "orders-4", 60, None),
        ("leave", "orders-1", 130, 190),
        ("kill", "orders-2", 250, 340),
        ("freeze", "orders-3", 400, 560),
        ("hang", "orders-1", 730, 830),
        ("poison", "orders-2", 880, 980),
        ("join", "orders-slow", 1030, 1260),
        ("add-queues", "Orders", 1310, None),
    ]


def test_no_client_owns_a_queue_while_another_holds_its_lock():
    """The lock is asked for before the queue is taken, so what two ordered clients had at once was never locked."""
    for seed in range(5):
        run = simulate(small({"at": 40, "do": "rollout", "group": "g", "every": 20, "down": 5}), seed, hook=False)
        queues = {}
        for one in run.cluster.world.truth.records:
            if isinstance(one, Owned):
                queues.setdefault(one.queue, []).append((one.begin, one.end or 2**62))
        for spans in queues.values():
            spans.sort()
            assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))


def test_the_hook_sees_a_heartbeat_every_30_s_and_a_rebalance_every_20_s():
    run = simulate(small())
    of_one = [one for one in run.of(HeartBeat) if one.client_id.endswith("c-2") and one.time > START + 60_000]
    assert {(b.time - a.time) // 1000 for a, b in itertools.pairwise(of_one)} <= {29, 30}
    channel = of_one[0].channel
    asked = [one.time for one in run.of(GetConsumerListByGroup) if one.channel == channel and one.time > START + 60_000]
    assert {round((b - a) / 1000) for a, b in itertools.pairwise(asked)} == {0, 20}  # two topics each time


def test_two_processes_of_one_client_id_take_the_same_share():
    step = {"at": 60, "do": "join", "who": "c-9", "group": "g", "client_id": "c-1", "lasts": 30}
    groups = [{"name": "g", "called": "c", "topics": ["Orders"], "consumers": 3}]
    run = simulate(small(step, groups=groups), until=85)
    assert shares(run.cluster) == {"c-1": [0, 1], "c-2": [4, 5], "c-3": [6, 7], "c-9": [0, 1]}
    run.cluster.run_until(120)
    assert shares(run.cluster) == THREE
    ends = [end for _, end in owned(run, "c-1", 0)]
    assert len(ends) == 2
    assert ends.count(None) == 1


def test_a_listener_slower_than_its_messages_come_falls_behind():
    step = {"at": 60, "do": "join", "who": "c-0", "group": "g", "listener_ms": 4000}
    run = simulate(small(step), until=180)
    last = {queue.mq.queue_id: queue for queue in run.of(ConsumeStats)[-1].queues if not queue.mq.is_retry}
    behind = {number for number, row in last.items() if row.broker_offset - row.consumer_offset > 20}
    assert behind == set(shares(run.cluster)["c-0"])


def test_the_truth_depends_on_the_seed_alone():
    assert truth(simulate("kill", 1).cluster) == truth(simulate("kill", 1).cluster)
    assert truth(simulate("kill", 1).cluster) != truth(simulate("kill", 2).cluster)


@pytest.mark.parametrize(
    ("step", "ended"),
    [({"do": "collector-away"}, {"broker-a"}), ({"do": "stop-broker", "broker": "broker-a"}, {""})],
    ids=["collector", "broker"],
)
def test_a_source_that_is_away_at_the_end_sends_no_last_tick(step, ended):
    run = simulate(small({"at": 30, **step}), until=60)
    run.cluster.end()
    before = {event.broker for event in run.of(Tick) if event.end and event.time < START + 60_000}
    assert {event.broker for event in run.of(Tick) if event.end} - before == ended
