"""Clients behind a proxy, as people see them: they are counted, and their release is the proxy's."""

import pytest

from streaming.queries.columns.column import Context
from streaming.queries.columns.groups import CLIENT, GROUP
from streaming.queries.groups import groups
from streaming.queries.results import GroupClient
from streaming.tables import ReadModel
from tests.support.tables import append, make_tables
from tests.support.world import NOON, World

HERE = Context(NOON)


@pytest.mark.parametrize(
    ("members", "proxied", "text"),
    [((), ("x", "y"), "2 by proxy"), (("a",), ("x",), "1, 1 by proxy"), (("a", "b"), None, "2"), ((), None, "0")],
)
def test_the_number_of_members_names_those_by_proxy(tmp_path, members, proxied, text):
    world = World()
    world.group("g", members=members, proxied_clients=proxied)
    append(make_tables(tmp_path), world.effects)
    with ReadModel(tmp_path) as model:
        [group] = groups(model, NOON)
    assert GROUP["members"].value(group, HERE).text == text


@pytest.mark.parametrize(("proxy", "text"), [("p:8080", "protocol 5.4.0"), (None, "5.4.0")])
def test_the_release_of_a_client_behind_a_proxy_is_that_of_the_protocol(proxy, text):
    client = GroupClient.model_construct(version="5.4.0", language="HTTP", proxy=proxy)
    assert CLIENT["version"].value(client, HERE).text == text
    assert "Node.js" in CLIENT["language"].value(client, HERE).hint
