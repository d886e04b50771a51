"""Clients that a polling round asks, and their order, over a scripted cluster."""

import asyncio

import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import (
    DEADLINE,
    Connection,
    ConsumerConnection,
    ConsumerRunningInfo,
    ProcessQueueInfo,
    Tick,
)
from streaming.collect.client import RpcFailedError
from tests.support.polling import of_kinds, polled
from tests.support.scripted_cluster import A, B, ScriptedCluster


def test_a_member_that_two_brokers_list_is_polled_once():
    cluster = ScriptedCluster(brokers=(A, B))
    events = polled(cluster)
    assert len(of_kinds(events, ConsumerConnection)) == 2
    assert sorted(about for question, about in cluster.asked if question == "running_info") == ["c1", "c2"]


def test_a_frozen_client_delays_no_other_and_has_one_open_request():
    cluster = ScriptedCluster()
    cluster.failures = {("running_info", "c1"): RpcFailedError(207, "timed out")}

    async def talk(poller):
        cluster.gates["running_info", "c1"] = asyncio.Event()
        summaries = [await poller.round(), await poller.round()]
        assert [(summary.pending, summary.errors) for summary in summaries] == [(1, 0), (1, 0)]
        assert [about for question, about in cluster.asked if question == "running_info"].count("c1") == 1
        cluster.gates["running_info", "c1"].set()
        await poller.drain()
        cluster.failures.clear()
        assert (await poller.round()).errors == 1  # a late answer counts in the round that receives it

    events = polled(cluster, talk, deadline_ms=500)
    clients = [event.client_id for event in events if isinstance(event, ConsumerRunningInfo)]
    assert sorted(clients[-2:]) == ["c1", "c2"]  # asked again once it has answered
    assert clients[:-2] == ["c2", "c2", "c1"]
    late = next(event for event in events if isinstance(event, ConsumerRunningInfo) and event.error)
    assert late.error.code == 207
    assert late.queues is None
    first_again = [event for event in events if isinstance(event, ConsumerRunningInfo)][1]
    assert late.asked < first_again.asked <= late.time  # asked in the first round, answered after the second


def test_clients_that_did_not_answer_are_polled_last():
    frozen = [f"f{number}" for number in range(8)]
    cluster = ScriptedCluster(members=[*frozen, "z"])
    cluster.delays = {("running_info", client): 0.15 for client in frozen}
    cluster.failures = {("running_info", client): RpcFailedError(207, "timed out") for client in frozen}

    async def talk(poller):
        await poller.round()
        await poller.drain()
        poller.tick()
        await poller.round()
        await poller.drain()

    events = polled(cluster, talk)
    second = events[next(number for number, event in enumerate(events) if isinstance(event, Tick)) :]
    clients = [event.client_id for event in second if isinstance(event, ConsumerRunningInfo)]
    assert len(clients) == 9
    assert clients[0] == "z"  # although eight frozen ones precede it, and only four requests may be open at once


def test_a_frozen_client_with_a_neighbours_id_delays_only_itself():
    """Anybody may take a client id: who is asked is a client of a group."""

    class Namesakes(ScriptedCluster):
        async def running_info(self, broker, group, client_id, seconds, *, stacks=False):
            if group == "evil":
                await self.gates["frozen"].wait()
            return await super().running_info(broker, group, client_id, seconds, stacks=stacks)

    cluster = Namesakes(members=("c1",), groups=("evil", "good"))

    async def talk(poller):
        cluster.gates["frozen"] = asyncio.Event()
        for _ in range(3):
            await poller.round()
        cluster.gates["frozen"].set()
        await poller.drain()

    events = polled(cluster, talk, deadline_ms=300)
    groups = [event.group for event in events if isinstance(event, ConsumerRunningInfo)]
    assert groups == ["good", "good", "good", "evil"]


def test_a_broker_that_lists_a_neighbours_member_costs_one_answer():
    """The member is asked where it was listed first; without an answer there, also at the other broker."""

    class Swallowing(ScriptedCluster):
        async def running_info(self, broker, group, client_id, seconds, *, stacks=False):
            if broker.name == "broker-a":
                raise RpcFailedError(DEADLINE, "no answer")
            return await super().running_info(broker, group, client_id, seconds, stacks=stacks)

    cluster = Swallowing(brokers=(A, B), members=("c1",))
    cluster.delays["connection", "broker-b"] = 0.05

    async def talk(poller):
        for _ in range(3):
            await poller.round()
            poller.tick()

    events = polled(cluster, talk)
    answered = [event.error is None for event in events if isinstance(event, ConsumerRunningInfo)]
    assert (answered[0], sum(answered)) == (False, 2)


def test_a_client_is_not_asked_when_its_group_was_left_within_the_round():
    cluster, ours = ScriptedCluster(members=("c1", "c2", "c3")), [True]

    async def talk(poller):
        cluster.gates["running_info", "c1"] = asyncio.Event()
        asking = asyncio.create_task(poller.round(lambda *_: ours[0]))
        while ("running_info", "c1") not in cluster.asked:
            await asyncio.sleep(0)
        ours[0] = False
        cluster.gates["running_info", "c1"].set()
        await asking

    events = polled(cluster, talk, parallelism=1)
    assert [about for question, about in cluster.asked if question == "running_info"] == ["c1"]
    assert [event.client_id for event in events if isinstance(event, ConsumerRunningInfo)] == ["c1"]


def polled_while_hanging(cluster, rounds):
    """Return the events of some rounds about a client whose listener hangs."""
    mq = MessageQueue("T", "broker-a", 0)
    cluster.queues = [
        ProcessQueueInfo(mq=mq, commit_offset=7, cached_count=3, locked=True, lock_time=1, dropped=False, pull_time=1,
                         consume_time=1)
    ]  # fmt: skip

    async def talk(poller):
        for _ in range(rounds):
            await poller.round()
            await poller.drain()
            await asyncio.sleep(0.002)

    return polled(cluster, talk, stacks_after_ms=1)


def test_a_listener_that_hangs_is_asked_once_for_its_stacks():
    cluster = ScriptedCluster(members=("c1",))
    events = polled_while_hanging(cluster, 4)

    answers = [event for event in events if isinstance(event, ConsumerRunningInfo)]
    assert [len(event.stacks) for event in answers] == [0, 1, 0, 0]
    assert answers[1].stacks[0].frames == ("a.Listener.consume",)


@pytest.mark.parametrize(
    ("language", "version", "asks"),
    [
        ("JAVA", "V5_4_0", True),
        ("CPP", "V4_6_0", False),
        ("GO", "v2.0.0", False),
        ("GO", "v2.1.1", True),
        ("", "", True),
    ],
)
def test_stacks_are_not_asked_of_a_client_that_never_reports_them(language, version, asks):
    class OtherLanguage(ScriptedCluster):
        async def connection(self, broker, group, seconds):
            answer = await super().connection(broker, group, seconds)
            return answer | {"connections": [Connection(client_id="c1", channel="h:9", language=language)]}

        async def running_info(self, broker, group, client_id, seconds, *, stacks=False):
            self.asked.append(("stacks", stacks))
            answer = await super().running_info(broker, group, client_id, seconds, stacks=stacks)
            return answer | {"properties": {"PROP_CLIENT_VERSION": version}}

    cluster = OtherLanguage(members=("c1",))
    polled_while_hanging(cluster, 3)
    assert (("stacks", True) in cluster.asked) is asks


def test_clients_of_one_group_leave_room_for_those_of_others():
    class TwoGroups(ScriptedCluster):
        async def connection(self, broker, group, seconds):
            self.members = ["c1", "c2"] if group == "g" else [f"odd-{number}" for number in range(20)]
            return await super().connection(broker, group, seconds)

    cluster = TwoGroups(groups=("a", "g"))

    async def talk(poller):
        for number in range(20):
            cluster.gates["running_info", f"odd-{number}"] = asyncio.Event()
        while (await poller.round()).members < 22:
            pass
        asked = [about for question, about in cluster.asked if question == "running_info"]
        assert {"c1", "c2"} < set(asked)
        assert len(asked) < 22

    events = polled(cluster, talk, deadline_ms=500, parallelism=8)
    assert {event.client_id for event in events if isinstance(event, ConsumerRunningInfo)} == {"c1", "c2"}
