"""The errors and answers of a simulated client whose brokers can't, or won't, answer."""

import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import ConsumerRunningInfo, TopicRoute
from simulation import broker_responses
from simulation.cluster import START
from simulation.rocketmq.client.cached_messages import Message
from simulation.rocketmq.client.host import BrokerError, OffsetNotFoundError, RefusedError
from simulation.rocketmq.client.pull_flow_control import Pull
from simulation.truth import Owned
from tests.support.simulated import shares, simulate, small

MQ = MessageQueue("Orders", "broker-a", 0)
NONE = MessageQueue("Orders", "broker-a", 99)


@pytest.fixture
def cluster():
    return simulate(small(), until=40.0).cluster


def asked(cluster, question, seconds=10):
    """The outcome of a coroutine of the first client, and how long it took."""
    outcome = []

    async def ask():
        try:
            outcome.append(await question)
        except BrokerError as error:
            outcome.append(error)
        outcome.append(round(cluster.seconds - began, 1))

    began = cluster.seconds
    cluster.clients["c-1"].process.spawn(ask())
    cluster.run_until(began + seconds)
    return outcome


def test_a_broker_returns_present_and_past_message_counts(cluster):
    brokers = cluster.clients["c-1"].brokers
    [newest, _] = asked(cluster, brokers.max_offset(MQ), seconds=0.01)
    assert 25 <= newest <= 30  # a message each 1.33 s since the second 2
    assert asked(cluster, brokers.search_offset(MQ, START + 15_000))[0] == 10
    [error, _] = asked(cluster, brokers.max_offset(NONE))
    assert isinstance(error, RefusedError)


def test_a_broker_that_has_no_members_refuses_to_list_them(cluster):
    [error, _] = asked(cluster, cluster.clients["c-1"].brokers.find_consumer_id_list("Orders", "nobody"))
    assert isinstance(error, RefusedError)
    assert "no consumer for this group, nobody" in str(error)
    [error, _] = asked(cluster, cluster.clients["c-1"].brokers.find_consumer_id_list("Nothing", "g"))
    assert not isinstance(error, RefusedError)


def test_a_waiting_reset_makes_a_broker_answer_with_it(cluster):
    cluster.brokers["broker-a"].offsets.assign_reset_offset("g", "Orders", 0, 7)
    assert asked(cluster, cluster.clients["c-1"].brokers.query_consumer_offset("g", MQ))[0] == 7


def test_an_offset_of_a_queue_without_commit_and_messages_is_not_found(cluster, monkeypatch):
    broker = cluster.brokers["broker-a"]
    monkeypatch.setattr(
        broker._consumers.__class__, "query_consumer_offset", _refusing(broker._consumers.query_consumer_offset)
    )
    [error, _] = asked(cluster, cluster.clients["c-1"].brokers.query_consumer_offset("new", MQ))
    assert isinstance(error, OffsetNotFoundError)


def _refusing(query):
    def refuse(_, group, queue, **arguments):
        return query(group, queue, **{**arguments, "zero_in_memory": False})

    return refuse


def test_a_broker_computes_the_share_of_a_member_that_asks(cluster):
    client = cluster.clients["c-1"]
    [share, _] = asked(cluster, client.brokers.query_assignment("Orders", "g", "AVG", "CLUSTERING"))
    assert {one.message_queue for one in share} == set(client.owned) - {mq for mq in client.owned if mq.is_retry}
    assert {one.mode for one in share} == {"PULL"}


def test_no_broker_computes_shares_of_a_topic_that_it_does_not_know(cluster):
    client = cluster.clients["c-1"]
    [error, _] = asked(cluster, client.brokers.query_assignment("Missing", "g", "AVG", "CLUSTERING"))
    assert isinstance(error, BrokerError)


def test_a_request_delayed_by_a_cut_times_out_and_closes_its_connection(cluster):
    client = cluster.clients["c-1"]
    [before] = [one for one in cluster.brokers["broker-a"].channels.values() if one.client is client]
    cluster.world.network.cut("c-1", "broker-a")
    [error, seconds] = asked(cluster, client.brokers.max_offset(MQ))
    assert (type(error), seconds) == (BrokerError, 3.0)
    assert not before.open_at_client
    assert before.open_at_broker  # the unregister request waits with the rest
    cluster.world.network.heal("c-1", "broker-a")
    cluster.run_until(cluster.seconds + 10)
    assert not before.open_at_broker
    assert shares(cluster) == {"c-1": [0, 1, 2], "c-2": [3, 4, 5], "c-3": [6, 7]}


def test_an_answer_that_a_cut_holds_up_fails_likewise(cluster):
    client = cluster.clients["c-1"]
    question = client.brokers.max_offset(MQ)
    cluster.world.scheduler.after(1, lambda: cluster.world.network.cut("c-1", "broker-a"))
    [error, seconds] = asked(cluster, question)
    assert (type(error), seconds) == (BrokerError, 3.0)


def test_no_connection_is_made_to_a_broker_that_is_down_or_unreachable(cluster):
    brokers = cluster.clients["c-1"].brokers
    cluster.brokers["broker-a"].stop()
    [error, seconds] = asked(cluster, brokers.max_offset(MQ), seconds=1)
    assert (type(error), seconds) == (BrokerError, 0.0)
    cluster.brokers["broker-a"].start()
    cluster.run_until(cluster.seconds + 30)
    assert len(cluster.brokers["broker-a"].manager.consumer_table["g"].client_ids()) == 3


def test_a_pull_beyond_the_newest_message_gets_that_offset(cluster):
    client, answers = cluster.clients["c-1"], []
    broker = cluster.brokers["broker-a"]
    quiet = client.waiting[MQ]
    broker.pulls.pull(client._connections._channels["broker-a"], "g", quiet, Pull(10_000, None, 0), answers.append)
    [answer] = answers
    assert answer.status == "OFFSET_ILLEGAL"
    assert answer.next_begin_offset == broker.logs[MQ].max_offset(cluster.world.scheduler.now)


def test_a_pull_without_subscription_or_of_a_newer_version_is_refused(cluster):
    client, answers = cluster.clients["c-1"], []
    channel, pulls = client._connections._channels["broker-a"], cluster.brokers["broker-a"].pulls
    pulls.pull(channel, "other", client.waiting[MQ], Pull(0, None, 0), answers.append)
    pulls.pull(channel, "g", client.waiting[MQ], Pull(0, None, 2**60), answers.append)
    assert [str(error).rpartition(" ")[2] for error in answers] == ["exist", "latest"]


def test_a_pull_of_a_deleted_topic_is_refused_at_once_or_after_its_wait(cluster):
    client, broker, answers = cluster.clients["c-1"], cluster.brokers["broker-a"], {"before": [], "after": []}
    channel, quiet = client._connections._channels["broker-a"], client.waiting[MQ]
    newest = broker.logs[MQ].max_offset(cluster.world.scheduler.now)
    broker.pulls.pull(channel, "g", quiet, Pull(newest, None, 0), answers["before"].append)
    broker.delete_topic("Orders")
    broker.pulls.pull(channel, "g", quiet, Pull(newest, None, 0), answers["after"].append)
    assert ([*map(type, answers["after"])], answers["before"]) == ([RefusedError], [])
    cluster.run_until(cluster.seconds + 14.9)
    assert answers["before"] == []
    cluster.run_until(cluster.seconds + 5.1)
    assert [*map(type, answers["before"])] == [RefusedError], "no message that was deleted, and no offset"


@pytest.mark.parametrize("code", [1, 3])
def test_a_client_that_does_not_know_the_request_refuses_its_running_info(code):
    run = simulate(small({"at": 20, "do": "join", "who": "c-4", "group": "g", "running_info_code": code}), until=45.0)
    answers = _running_info(run)
    assert {one.error.code for one in answers["c-4"]} == {code}
    assert all(one.error is None for one in answers["c-1"])
    assert shares(run.cluster)["c-4"] == [6, 7], "it consumes like every other member"


def test_a_broker_reports_a_client_that_never_answers_after_10_s():
    run = simulate(small({"at": 20, "do": "join", "who": "c-4", "group": "g", "running_info_code": 207}), until=45.0)
    first = _running_info(run)["c-4"][0]
    assert (first.error.code, first.answered - first.asked) == (207, pytest.approx(10_000, abs=5))


def _running_info(run):
    """By client, the answers to GET_CONSUMER_RUNNING_INFO."""
    answers = {}
    for one in run.of(ConsumerRunningInfo):
        answers.setdefault(one.client_id.rpartition("@")[2], []).append(one)
    return answers


def test_a_message_sent_back_returns_after_its_delay_or_is_a_dead_letter(cluster):
    """It has 16 attempts by default; the delay level -1 means none."""
    client, broker = cluster.clients["c-1"], cluster.brokers["broker-a"]
    now = cluster.world.scheduler.now
    for tries in (0, 1, 15, 16):
        asked(cluster, client.brokers.send_to_retry_topic("g", MQ, Message(0, reconsume_times=tries)), 0)
    for level in (3, -1):
        asked(cluster, client.brokers.send_message_back("g", MQ, Message(0), level), 0)
    cluster.run_until(cluster.seconds + 1)
    log = broker.logs[MessageQueue("%RETRY%g", "broker-a", 0)]
    delays = [round((log.arrival(offset) - now) / 1_000_000) for offset in range(4)]
    assert delays == [10, 10, 30, 7200]
    assert log.arrival(4) is None
    [dead] = broker_responses.topic_stats(broker, "%DLQ%g")
    assert (dead.min_offset, dead.max_offset) == (0, 2)
    assert dead.last_time == round(now / 1000)


def test_without_a_dead_letter_there_is_no_dead_letter_topic(cluster):
    assert broker_responses.topic_stats(cluster.brokers["broker-a"], "%DLQ%g") == ()


def test_a_frozen_client_is_dropped_when_idle_and_others_are_notified():
    run = simulate(small({"at": 65, "do": "freeze", "who": "c-3"}), until=200.0, hook=False, poll=False)
    taken = [one.begin for one in run.cluster.world.truth.records if isinstance(one, Owned) and one.queue.queue_id == 6]
    assert len(taken) == 2
    heir = (taken[1] - START) / 1000
    assert 185 <= heir <= 189, "120 s after the last byte; by the scan it would be 190 s and up to 20 s more"


def test_the_routes_of_topics_that_a_group_has_left_are_still_polled():
    """As the collector of the product does: a broker's offsets name them, though no member subscribes them."""
    left = [{"at": 30, "do": "leave", "who": who} for who in ("c-1", "c-2", "c-3")]
    run = simulate(small(*left), until=65.0)
    assert [one.asked - START for one in run.of(TopicRoute)] == pytest.approx([*range(12_000, 65_000, 10_000)], abs=10)
