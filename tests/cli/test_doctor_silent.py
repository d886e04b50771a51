"""`doctor` names the brokers that answer nothing, and says how many had no turn: one is not the other."""

from rebalance_model.observe.events import DEADLINE, UNREADABLE, BrokerStatus, RpcError
from streaming.base.settings import load_settings
from streaming.cli.checks import _silent, examine
from streaming.collect.poll_round import Summary
from tests.support.beside import listed, silent_servers
from tests.support.odd_cluster import OddCluster

COMMON = {"time": 1_800_000_000_000, "cluster": "c", "source": "poll", "source_id": "poll-1@1", "seq": 1}


def status(broker, code):
    return BrokerStatus(broker=broker, error=RpcError(code=code, remark="no answer within 9.0 s"), **COMMON)


def test_brokers_that_answer_nothing_are_named():
    [check] = _silent([status("broker-b", DEADLINE), status("broker-c", UNREADABLE)], Summary())
    assert (check.part, check.state, check.needed) == ("silent brokers", "missing", False)
    assert check.found == "asked, no answer: broker-b (no answer within 9.0 s)"


def test_brokers_that_had_no_turn_are_no_silent_ones():
    [check] = _silent([], Summary(not_asked=7))
    assert (check.part, check.found.split()[0]) == ("brokers not asked", "7")


def test_a_broker_that_accepts_connections_and_says_nothing_is_found(tmp_path):
    with silent_servers(1) as addresses, OddCluster(brokers=listed(addresses)) as cluster:
        collector = {"name_servers": [cluster.address], "deadline_ms": 1_000}
        settings = load_settings(collector=collector, runtime={"root": str(tmp_path)})
        found = {one.part: one.found for one in examine(settings, servers=True)}
    assert "evil-0000" in found["silent brokers"]
    assert "brokers not asked" not in found
