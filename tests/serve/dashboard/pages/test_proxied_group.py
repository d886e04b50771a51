"""A group of gRPC clients behind a proxy: its kind, its members by proxy, and their health."""

import re

from playwright.sync_api import expect

from tests.serve.dashboard.tables import MINUTE, Group, polled
from tests.support.tables import append, append_rows

CLIENTS = ("vm@1@0@x", "vm@2@0@y")


def test_a_group_behind_a_proxy_has_a_kind_and_members_with_health(open_page, site):
    connections = [{"client_id": one, "channel": "10.0.0.7:1", "language": "GOLANG", "version": 493} for one in CLIENTS]
    said = {"proxy": "proxy-1:8080", "subscriptions": [{"topic": "Grpc", "sub_string": "*"}]}
    append_rows(
        site.tables, "telemetry",
        [polled(site.now - MINUTE, "PROXY_CONNECTION", "grpc-group", broker="", connections=connections, **said)],
    )  # fmt: skip
    group = Group("grpc-group", "Grpc", CLIENTS)
    group.state(site.now - MINUTE, members=(), proxied_clients=CLIENTS, orderly=None, strategy=None)
    group.incident(
        site.now - MINUTE, "grpc0001", "OPENED", site.now - MINUTE, code="POP_STOPPED", sub_cause="",
        severity="warning", subject=CLIENTS[1], client_id=CLIENTS[1], **dict.fromkeys(("topic", "broker", "queue_id")),
    )  # fmt: skip
    append(site.tables, group.taken())

    page = open_page("/?find=grpc-group")
    row = (
        page.get_by_role("table", name=re.compile("^Consumer groups")).get_by_role("row").filter(has_text="grpc-group")
    )
    expect(row).to_contain_text("behind a proxy: shared")
    expect(row).to_contain_text("2 by proxy")
    row.get_by_role("link", name="grpc-group").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("grpc-group")
    expect(page.locator("p.lede")).to_contain_text("behind a proxy: shared")
    members = page.get_by_role("table", name="Clients of proxies, which no broker lists")
    expect(members.get_by_role("row").filter(has_text=CLIENTS[0])).to_contain_text("OK")
    expect(members.get_by_role("row").filter(has_text=CLIENTS[1])).to_contain_text("WARN")

    incident = page.get_by_role("region", name="Open incidents").get_by_role("link", name=CLIENTS[1], exact=True)
    expect(incident).to_have_attribute("href", re.compile(r"^/client/vm%402"))
