"""`doctor` says which proxy does not answer, and which groups need one that is not configured."""

import json

import pytest

from rebalance_model.observe.events import DEADLINE, UNREADABLE, Connection, ProxyConnection, RpcError
from streaming.base.settings import load_settings
from streaming.cli.checks import examine
from streaming.cli.peer_checks import answers
from tests.serve.dashboard.tables import Group
from tests.support.odd_cluster import OddCluster
from tests.support.tables import append, make_tables

NOW = 1_795_300_000_000
PROXY = "10.0.0.7:8080"


def answer(group, *clients, error=None, proxy=PROXY):
    given = {"connections": tuple(Connection(client_id=one) for one in clients)} if error is None else {"error": error}
    common = {"time": NOW, "cluster": "c", "source": "poll", "source_id": "poll-1@1", "seq": 1}
    return ProxyConnection(group=group, proxy=proxy, **given, **common)


def test_a_proxy_that_answers_says_how_many_clients_it_has():
    [check] = answers([answer("g", "x", "y"), answer("h", "x"), answer("i")])
    assert (check.part, check.state, check.found) == (f"proxy {PROXY}", "ok", "2 clients of 3 groups")
    assert not check.needed


@pytest.mark.parametrize(
    ("error", "state", "text", "mend"),
    [
        (RpcError(code=DEADLINE, remark="no answer within 9 s"), "missing", "no answer within 9 s", "8080 by default"),
        (RpcError(code=3, remark=" request type 203 not supported"), "wrong", "it lists no clients", "remoting port"),
        (RpcError(code=16), "wrong", "code 16", "access control"),
        (RpcError(code=UNREADABLE, remark="no JSON"), "wrong", "no JSON", "list the clients"),
    ],
)
def test_one_that_does_not_is_named_with_what_to_do(error, state, text, mend):
    [check, beside] = answers([answer("g", error=error), answer("h", error=error), answer("g", "x", proxy="p:2")])
    assert (check.part, check.state, beside.state) == (f"proxy {PROXY}", state, "ok")
    assert text in check.found
    assert mend in check.mend
    [check] = answers([answer("g", error=error), answer("h")])
    assert "for 1 of 2 groups" in check.found


def test_the_check_asks_the_configured_proxies(tmp_path):
    with OddCluster() as cluster:
        collector = {"name_servers": [cluster.address], "proxies": ["127.0.0.1:1"]}
        settings = load_settings(collector=collector, runtime={"root": str(tmp_path)})
        [check] = [one for one in examine(settings, servers=True) if one.part.startswith("proxy ")]
    assert (check.part, check.state, check.needed) == ("proxy 127.0.0.1:1", "missing", False)
    assert "collector.proxies" in check.mend


@pytest.fixture
def root(tmp_path):
    """A root with a classic group, and three of which no broker lists a client."""
    folder = make_tables(tmp_path / "tables")
    shared = {"members": (), "orderly": None}
    for name, fields in {
        "classic": {},
        "grpc-b": shared | {"coverage": json.dumps({"sharing": "UNLISTED"})},
        "grpc-a": shared | {"proxied_clients": ("x",)},
        "empty": shared | {"coverage": json.dumps({"sharing": ""})},
    }.items():
        group = Group(name, "Orders", ("a",))
        group.state(NOW, **fields)
        append(folder, group.taken())
    return tmp_path


def checks(root, **collector):
    settings = load_settings(collector=collector, runtime={"root": str(root)})
    return {one.part: one for one in examine(settings, servers=False)}


def test_groups_that_only_proxies_serve_need_one(root):
    check = checks(root)["proxies"]
    assert (check.state, check.needed) == ("missing", False)
    assert check.found == "none is configured, and no broker lists the clients of grpc-a, grpc-b"
    assert 'collector.proxies = ["HOST:8080"]' in check.mend


def test_with_a_proxy_nothing_is_missing(root):
    assert "proxies" not in checks(root, proxies=["10.0.0.7:8080"])
    entry = {"name_servers": ["a:9876"], "proxies": ["10.0.0.7:8080"]}
    assert "proxies" not in checks(root, clusters=[entry])
