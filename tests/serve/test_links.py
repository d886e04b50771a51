"""Addresses of pages."""

from streaming.serve.links import group_link, incident_link


def test_links_contain_the_instant_and_escape_names():
    assert group_link("c", "a/b%&c", 5, "6h") == "/group/a%2Fb%25%26c?cluster=c&at=1970-01-01T00:00:00.005Z&span=6h"
    assert incident_link("x") == "/incident/x"
