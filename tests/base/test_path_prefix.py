"""The path prefix of `web.url`, and those that can't work."""

import re

import pytest

from streaming.base.errors import SettingsError
from streaming.base.sections.web import DASHBOARD_PATHS
from streaming.base.settings import load_settings
from streaming.serve.web import probes
from streaming.serve.web.api import PREFIX
from streaming.serve.web.gate import LOGIN_PATH
from streaming.serve.web.server import MCP_PATH
from tests.docs.source import ROOT


@pytest.mark.parametrize(
    ("url", "prefix", "address"),
    [
        ("", "", "http://127.0.0.1:8411"),
        ("https://host", "", "https://host"),
        ("https://host/", "", "https://host"),
        ("https://host/rw", "/rw", "https://host/rw"),
        ("https://host/a/b-c/", "/a/b-c", "https://host/a/b-c"),
        ("https://host/groups", "/groups", "https://host/groups"),
    ],
)
def test_the_prefix_is_the_path_of_the_url(url, prefix, address):
    web = load_settings(web={"url": url}).web
    assert (web.prefix, web.address) == (prefix, address)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("https://host/group", "should not begin with /group, which is a path of the dashboard: use one such as /rw"),
        ("https://host/api/v1", "should not begin with /api, "),
        ("https://host/_nicegui/x", "should not begin with /_nicegui, "),
        ("https://host/rw?x=1", "should have no more than a plain path, such as https://host/rw"),
        ("https://host/rw#x", "should have no more than a plain path"),
        ("https://host/a%20b", "should have no more than a plain path"),
        ("https://host//rw", "should have no more than a plain path"),
    ],
)
def test_a_prefix_that_can_not_work_is_refused_at_the_start(url, sentence):
    with pytest.raises(SettingsError, match=f"^Setting web.url: {re.escape(sentence)}") as refused:
        load_settings(web={"url": url})
    assert len(refused.value.args) == 1


def test_every_path_of_the_dashboard_is_known():
    pages = (ROOT / "streaming/serve/dashboard/routes.py").read_text("utf-8")
    others = (PREFIX, LOGIN_PATH, "/logout", "/metrics", MCP_PATH, *probes.PATHS)

    found = {*re.findall(r'@_route\("/(\w+)', pages), *(path.split("/")[1] for path in others)}
    assert found == DASHBOARD_PATHS
