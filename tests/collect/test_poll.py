"""The order and the errors of a polling round over a scripted cluster."""

import asyncio
import time
from collections import Counter
from functools import partial
from itertools import pairwise

import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import (
    DEADLINE,
    UNREACHABLE,
    UNREADABLE,
    BrokerStatus,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeTimeSpan,
    OffsetInfo,
    Subscription,
    Tick,
    TopicRoute,
    TopicStats,
)
from streaming.base.limits import GROUP_TOPICS
from streaming.collect.client import RequestRefusedError, RpcFailedError
from streaming.collect.client_responses import Backlog
from streaming.collect.cluster_responses import ListedBroker
from streaming.collect.emitter import Emitter
from streaming.collect.poll import Claims, Poller
from tests.support.polling import SETTINGS, of_kinds, polled
from tests.support.scripted_cluster import A, B, ScriptedCluster


def test_a_groups_events_are_routes_members_offsets_then_clients():
    cluster = ScriptedCluster()
    cluster.delays = {("route", "T"): 0.05, ("connection", "broker-a"): 0.02, ("running_info", "c1"): 0.03}
    events = [event for event in polled(cluster) if not isinstance(event, BrokerStatus)]
    assert of_kinds(events) == [
        TopicRoute,
        ConsumerConnection,
        TopicRoute,  # of the topic that only the offsets name
        ConsumeStats,
        ConsumerRunningInfo,
        ConsumerRunningInfo,
    ]
    assert [event.topic for event in events if isinstance(event, TopicRoute)] == ["T", "Old"]
    assert [event.client_id for event in events[-2:]] == ["c2", "c1"]  # as they answered
    assert [event.seq for event in events] == [1, 2, 3, 4, 5, 6]
    assert all(event.asked <= event.answered <= event.time for event in events)


def test_answers_wait_only_for_the_first_route_of_a_group():
    cluster = ScriptedCluster()

    async def talk(poller):
        await poller.round()
        poller.tick()
        cluster.delays = {("route", "T"): 1.0, ("route", "Old"): 1.0}
        await poller.round()
        await poller.drain()

    events = polled(cluster, talk)
    first = next(number for number, event in enumerate(events) if isinstance(event, Tick))
    answers = [event for event in events[first:] if isinstance(event, ConsumerConnection | ConsumeStats)]
    routes = [event for event in events[first:] if isinstance(event, TopicRoute)]
    assert [type(event) for event in answers] == [ConsumerConnection, ConsumeStats]
    assert all(event.time - event.answered < 1_000 for event in answers)
    assert max(event.time for event in answers) < min(event.time for event in routes)
    assert all(event.answered - event.asked >= 1_000 for event in routes)


def test_the_broker_status_has_the_time_that_its_request_carried():
    (status,) = [event for event in polled(ScriptedCluster()) if isinstance(event, BrokerStatus)]
    assert (status.boot_time, status.now) == (7, 9_007)
    assert status.asked == int(status.source_id.partition("@")[2]) <= status.answered <= status.time


def test_a_broker_that_has_answered_is_asked_for_its_revive_backlog():
    third = ListedBroker("C", "broker-c", "h:3")
    cluster, summaries = ScriptedCluster([A, B, third], groups=()), []
    cluster.backlogs = {"broker-a": Backlog(230, 5), "broker-c": Backlog(3, 0)}
    cluster.failures = {("revive_backlog", "broker-b"): RequestRefusedError(16, "no right to read this group")}

    async def talk(poller):
        summaries.extend([await poller.round(), await poller.round()])

    statuses = [event for event in polled(cluster, talk) if isinstance(event, BrokerStatus)]
    assert {(one.revive_backlog, one.error) for one in statuses[:3]} == {(None, None)}
    reported = sorted((one.broker, one.revive_backlog, one.revive_late, one.error) for one in statuses[3:])
    assert reported == [
        ("broker-a", 230, 7 + 9_000 - 5, None),  # how late it is, by its own clock
        ("broker-b", None, None, None),
        ("broker-c", 3, None, None),  # it has checked none that it still stores
    ]
    assert {text for one in summaries for text in one.refusals} == set()  # the right is worth having, not needed


def test_a_topic_that_a_group_names_again_has_its_route_first_again():
    """Topics that no group names any more are forgotten: there may be new ones in each round."""

    class Fickle(ScriptedCluster):
        topics: tuple[str, ...] = ("T",)

        async def connection(self, broker, group, seconds):
            answer = await super().connection(broker, group, seconds)
            return answer | {"subscriptions": [Subscription(topic=topic, sub_string="*") for topic in self.topics]}

        async def consume_stats(self, broker, group, seconds):
            return await super().consume_stats(broker, group, seconds) | {"queues": []}

    cluster = Fickle()
    cluster.delays = {("route", "T"): 0.2}

    async def talk(poller):
        for cluster.topics in (("T",), (), ("T",)):
            await poller.round()
            poller.tick()

    last = polled(cluster, talk)
    ends = [number for number, event in enumerate(last) if isinstance(event, Tick)]
    kinds = of_kinds(last[ends[-2] :], TopicRoute, ConsumerConnection)
    assert kinds == [TopicRoute, ConsumerConnection]


def test_waiting_times_are_requested_for_each_topic_with_offsets():
    cluster = ScriptedCluster()
    cluster.failures = {("consume_time_span", "Old"): RpcFailedError(17, "topic[Old] not exist")}
    events = [event for event in polled(cluster, consume_time_span=True) if isinstance(event, ConsumeTimeSpan)]
    assert {event.topic: event.error and event.error.code for event in events} == {
        "%RETRY%g": None,
        "T": None,
        "Old": 17,
    }
    assert [row.delay_time for event in events if event.topic == "T" for row in event.queues] == [5]
    assert not [event for event in polled(ScriptedCluster()) if isinstance(event, ConsumeTimeSpan)]


def test_dead_letters_are_requested_in_one_of_several_rounds_by_group():
    cluster = ScriptedCluster(brokers=(A, B), groups=("g", "h", "i"))

    async def talk(poller):
        for _ in range(13):
            await poller.round()

    events = polled(cluster, talk, interval_ms=10_000, dead_letters_interval_ms=60_000)
    stats = [event for event in events if isinstance(event, TopicStats)]
    assert {(event.group, event.topic) for event in stats} == {(group, f"%DLQ%{group}") for group in "ghi"}
    assert {event.broker for event in stats} == {"broker-a", "broker-b"}
    assert [(row.min_offset, row.max_offset) for event in stats[:1] for row in event.queues] == [(2, 5)]
    starts = [number for number, asked in enumerate(cluster.asked) if asked[0] == "brokers"][1:]
    in_rounds = {group: [] for group in "ghi"}
    for number, (question, about) in enumerate(cluster.asked):
        if question == "topic_stats" and about[5:] in in_rounds:
            in_rounds[about[5:]].append(sum(start <= number for start in starts) - 1)
    for rounds in in_rounds.values():
        assert rounds[:2] == [0, 0]  # all in the first round, at both brokers
        assert {b - a for a, b in pairwise(sorted(set(rounds) - {0}))} <= {6}
    assert len({tuple(rounds) for rounds in in_rounds.values()}) > 1


def test_dead_letters_are_not_requested_with_an_interval_of_0():
    cluster = ScriptedCluster()
    polled(cluster, dead_letters_interval_ms=0)
    assert not [question for question, _ in cluster.asked if question == "topic_stats"]


def test_the_oldest_message_is_asked_of_the_topic_that_is_read_latest():
    """Once a broker and round, of the largest lag among the queues whose last consumed message is old or gone."""

    def behind(topic, lag, stored_ago_s):
        stored = round((time.time() - stored_ago_s) * 1000) if stored_ago_s is not None else 0
        return OffsetInfo(mq=MessageQueue(topic, "broker-a", 0), broker_offset=9_000, consumer_offset=9_000 - lag,
                          last_time=stored)  # fmt: skip

    class Late(ScriptedCluster):
        rows = ()

        async def consume_stats(self, broker, group, seconds):
            return await super().consume_stats(broker, group, seconds) | {"queues": self.rows}

    cases = {
        "Slow": [behind("Slow", 500, 3_600), behind("Busy", 8_000, 5), behind("Old", 20, 90_000)],
        "Gone": [behind("Slow", 500, 3_600), behind("Gone", 900, None)],
        None: [behind("Busy", 8_000, 5), behind("Idle", 0, 90_000)],
    }
    for topic, rows in cases.items():
        cluster = Late()
        cluster.rows = rows
        stats = [event for event in polled(cluster, oldest_offsets=True) if isinstance(event, TopicStats)]
        assert [event.topic for event in stats] == ([topic] if topic else [])
        assert [row.min_offset for event in stats for row in event.queues] == ([2] if topic else [])
        polled(cluster)
        asked = [about for question, about in cluster.asked if question == "topic_stats"]
        assert len(asked) == len(stats)  # none by the setting


def test_a_group_without_members_still_has_its_routes():
    events = polled(ScriptedCluster(members=()))
    assert {event.topic for event in events if isinstance(event, TopicRoute)} == {"T", "Old"}
    (connection,) = [event for event in events if isinstance(event, ConsumerConnection)]
    assert connection.connections == ()
    assert connection.error is None


def test_a_route_is_requested_once_a_round_for_all_groups():
    cluster = ScriptedCluster(brokers=(A, B), groups=("g", "h"))
    events = polled(cluster)
    assert sorted(about for question, about in cluster.asked if question == "route") == ["Old", "T"]
    routes = sorted((event.group, event.topic) for event in events if isinstance(event, TopicRoute))
    assert routes == [("g", "Old"), ("g", "T"), ("h", "Old"), ("h", "T")]


def test_an_unreachable_broker_becomes_error_events_of_its_groups():
    cluster = ScriptedCluster(brokers=(A, B))

    async def talk(poller):
        await poller.round()
        await poller.drain()
        away = RpcFailedError(UNREACHABLE, "refused")
        for question in ("groups", "broker_status", "connection", "consume_stats"):
            cluster.failures[question, "broker-b"] = away
        await poller.round()
        await poller.drain()

    of_b = [event for event in polled(cluster, talk) if event.broker == "broker-b"][-3:]
    assert {type(event) for event in of_b} == {BrokerStatus, ConsumerConnection, ConsumeStats}
    assert {event.error.code for event in of_b} == {UNREACHABLE}


def test_a_hanging_broker_delays_no_other_and_keeps_its_deadline():
    cluster = ScriptedCluster(brokers=(A, B))

    async def talk(poller):
        await poller.round()
        await poller.drain()
        for question in ("groups", "broker_status", "connection", "consume_stats"):
            cluster.delays[question, "broker-a"] = 60
        poller.tick()
        assert (await poller.round()).ms < 30_000

    events = polled(cluster, talk, deadline_ms=1_500)
    second = events[next(number for number, event in enumerate(events) if isinstance(event, Tick)) :]
    of_a = [event for event in second if event.broker == "broker-a"]
    assert {type(event): event.error.code for event in of_a} == dict.fromkeys(
        (BrokerStatus, ConsumerConnection, ConsumeStats), DEADLINE
    )
    of_b = [event for event in second if event.broker == "broker-b"]
    assert len(of_kinds(of_b, ConsumerRunningInfo)) == 2
    assert max(event.time for event in of_b) < min(event.time for event in of_a)


def test_a_request_for_which_no_time_is_left_is_not_sent():
    """It had "no answer within -2.4 s"."""
    cluster = ScriptedCluster()

    async def talk(poller):
        ask, gate = partial(cluster.connection, A, "g"), asyncio.Semaphore(1)
        over = asyncio.get_running_loop().time() - 2.4
        answer = await poller._asker.ask(ask, gate, deadline=over, seconds=9.0)
        assert (answer.error.code, answer.error.remark) == (DEADLINE, "not asked: the round's time was over")

    polled(cluster, talk)
    assert [question for question, _ in cluster.asked if question == "connection"] == []


def test_any_exception_of_a_request_ends_that_request_alone(capsys):
    """No answer of anybody may end the collector: not even one that shows a fault of ours."""
    cluster = ScriptedCluster(groups=("g", "h"))
    cluster.failures["running_info", "c1"] = ZeroDivisionError("ours")
    events = polled(cluster)
    answers = [event for event in events if isinstance(event, ConsumerRunningInfo)]
    assert {(event.client_id, event.error.code if event.error else None) for event in answers} == {
        ("c1", UNREADABLE), ("c2", None),
    }  # fmt: skip
    printed = capsys.readouterr().out.splitlines()
    assert len([line for line in printed if "a request failed" in line and "warning" in line]) == 1  # for both groups


@pytest.mark.parametrize("steps", range(1, 60, 2))
def test_a_round_that_is_cancelled_at_any_step_ends_without_a_word(steps, capsys):
    """At SIGTERM a group whose answer had just come began a request in a task group that no longer took any."""
    cluster = ScriptedCluster(brokers=(A, B), groups=("g", "h"))

    async def talk(poller):
        under_way = asyncio.create_task(poller.round())
        for _ in range(steps):
            await asyncio.sleep(0)
        under_way.cancel()
        await asyncio.wait([under_way])

    polled(cluster, talk)
    assert "failed" not in capsys.readouterr().out


@pytest.mark.parametrize("readings", range(1, 60))
def test_a_clock_set_at_any_moment_leaves_answered_before_the_event(readings):
    """It was set between two looks at it: the answer's times were by the former clock, the event's by the new one."""
    left, wall = [readings], [1_000_000_000_000]

    def host():
        left[0] -= 1
        if left[0] == 0:
            wall[0] -= 3_600_000
        return wall[0]

    async def run():
        emitter = Emitter("poll-1", host, lambda: 0)
        poller = Poller(ScriptedCluster(), emitter, SETTINGS)
        await poller.find_brokers()
        await poller.round()
        await poller.drain()
        emitter.finish()
        batches = []
        await emitter.send(batches.append)
        return [event for batch in batches for event in batch]

    events = asyncio.run(run())
    answers = [event for event in events if getattr(event, "answered", 0)]
    assert answers
    assert [one for one in answers if not one.asked <= one.answered <= one.time] == []


def test_brokers_are_polled_while_the_name_server_is_unreachable():
    cluster = ScriptedCluster()

    async def talk(poller):
        cluster.failures = {("brokers", ""): RpcFailedError(-1, "away"), ("route", "T"): RpcFailedError(-1, "away")}
        await poller.round()

    events = polled(cluster, talk)
    assert [event.error.code for event in events if isinstance(event, TopicRoute) and event.topic == "T"] == [-1]
    assert len(of_kinds(events, ConsumerConnection, ConsumeStats)) == 2


@pytest.mark.parametrize(
    ("patterns", "asked"),
    [((), {"g-1", "g-2", "h"}), (("g-*",), {"g-1", "g-2"}), (("h", "none"), {"h"})],
)
def test_groups_are_selected_by_name_and_system_groups_are_skipped(patterns, asked):
    cluster = ScriptedCluster(groups=("g-1", "g-2", "h", "CID_RMQ_SYS_TRANS", "TOOLS_CONSUMER"))
    events = polled(cluster, groups=patterns)
    assert {event.group for event in events if isinstance(event, ConsumeStats)} == asked


def test_an_answer_that_no_event_can_have_is_an_error_without_a_gap_in_seq():
    cluster = ScriptedCluster(members=[f"{number}" * 900 for number in range(1_200)])
    events = polled(cluster)
    (connection,) = [event for event in events if isinstance(event, ConsumerConnection)]
    assert connection.error.code == UNREADABLE
    assert "the log accepts 1000000" in connection.error.remark
    assert len(of_kinds(events, ConsumeStats)) == 1


def test_a_name_that_no_event_can_have_is_left_out():
    events = polled(ScriptedCluster(groups=("g", "x" * 2_000_000, "\ud800")))
    assert {event.group for event in events if isinstance(event, ConsumeStats)} == {"g"}


def test_ticks_name_every_cluster():
    cluster = ScriptedCluster(brokers=(A, ListedBroker("D", "broker-d", "h:3")))

    async def talk(poller):
        poller.tick()
        poller.tick(end=True)

    ticks = [(event.cluster, event.end) for event in polled(cluster, talk)]
    assert ticks == [("C", False), ("D", False), ("C", True), ("D", True)]


def test_a_cluster_of_a_known_name_is_not_polled_twice():
    claims, clusters = Claims(), (ScriptedCluster(), ScriptedCluster(brokers=(A, ListedBroker("D", "broker-d", "h:3"))))

    async def run():
        emitter = Emitter("poll-1")
        pollers = [Poller(cluster, emitter, SETTINGS, claims) for cluster in clusters]
        for poller in pollers:
            await poller.find_brokers()
        return pollers

    first, second = asyncio.run(run())
    assert (first.clusters, second.clusters) == (["C"], ["D"])
    assert (first.doubles, second.doubles) == (set(), {"C"})


def test_only_groups_of_its_share_are_polled():
    cluster = ScriptedCluster(groups=("g", "h"))

    async def talk(poller):
        await poller.round(lambda name, group: (name, group) == ("C", "h"))

    events = polled(cluster, talk)
    assert {event.group for event in events if isinstance(event, ConsumerConnection)} == {"h"}
    assert len([event for event in events if isinstance(event, BrokerStatus)]) == 1


def test_of_a_silent_broker_with_many_groups_they_take_turns(monkeypatch):
    monkeypatch.setattr("streaming.collect.broker_polls.SILENT_BROKER_GROUPS", 10)
    groups = [f"g{number:02}" for number in range(25)]
    cluster = ScriptedCluster(groups=groups, members=())

    async def talk(poller):
        await poller.round()
        for question in ("groups", "broker_status", "connection", "consume_stats"):
            cluster.failures[question, "broker-a"] = RpcFailedError(UNREACHABLE, "refused")
        poller.tick()
        for _ in range(3):
            assert (await poller.round()).late == 15
            poller.tick()

    events = polled(cluster, talk)
    ends = [number for number, event in enumerate(events) if isinstance(event, Tick)]
    turns = [
        {event.group for event in events[begin:end] if isinstance(event, ConsumerConnection)}
        for begin, end in pairwise(ends)
    ]
    assert [len(turn) for turn in turns] == [10, 10, 10]
    assert set.union(*turns) == set(groups)


def test_groups_for_which_a_round_has_no_time_begin_the_next_one():
    groups = [f"g{number:02}" for number in range(40)]
    cluster = ScriptedCluster(groups=groups, members=())
    cluster.delays = {("connection", "broker-a"): 0.1}
    rounds = []

    async def talk(poller):
        while sum(one.groups for one in rounds) < 2 * len(groups):
            rounds.append(await poller.round())
            poller.tick()
            if len(rounds) == 1:
                cluster.delays["groups", "broker-a"] = 1.0  # one round in which the broker returns no groups
                await poller.round()
                del cluster.delays["groups", "broker-a"]
                poller.tick()

    events = polled(cluster, talk, deadline_ms=450)
    assert rounds[0].late > 0
    turns = Counter(dict.fromkeys(groups, 0))
    for event in events:
        if isinstance(event, ConsumerConnection):
            turns[event.group] += 1
        if isinstance(event, Tick):  # a round's end: answers within a round have no order
            assert max(turns.values()) - min(turns.values()) <= 1
    assert min(turns.values()) >= 2


class ManyTopics(ScriptedCluster):
    """A group whose members subscribe many topics; it has offsets of one."""

    async def connection(self, broker, group, seconds):
        answer = await super().connection(broker, group, seconds)
        topics = [f"t{number:03}" for number in range(250)]
        return answer | {"subscriptions": [Subscription(topic=topic, sub_string="*") for topic in [*topics, "T"]]}


def test_topics_of_a_group_take_turns_and_those_with_offsets_are_first():
    cluster, rounds = ManyTopics(), []

    async def talk(poller):
        for _ in range(4):
            cluster.asked.clear()
            await poller.round()
            rounds.append([about for question, about in cluster.asked if question == "route"])

    polled(cluster, talk)
    assert {len(topics) for topics in rounds} == {GROUP_TOPICS}
    assert all({"T", "Old"} <= set(topics) for topics in rounds[1:])
    assert len(set().union(*rounds)) == 252


def test_a_name_server_that_leaves_a_route_unanswered_is_not_asked_again():
    cluster = ScriptedCluster(groups=[f"g{number}" for number in range(20)])
    cluster.failures["route", "T"] = RpcFailedError(DEADLINE, "no name server answers")
    events = polled(cluster)
    routes = [event for event in events if isinstance(event, TopicRoute)]
    assert {event.error.code for event in routes} == {DEADLINE}
    assert [about for question, about in cluster.asked if question == "route"] == ["T"]
    assert len([event for event in events if isinstance(event, ConsumeStats) and event.error is None]) == 20
