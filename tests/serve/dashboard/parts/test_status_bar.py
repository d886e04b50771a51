"""The bar at the top of a page that says what there is, in one line."""

import re
from collections import Counter

from streaming.serve.dashboard.pages.home import GroupFilters, overview
from streaming.serve.dashboard.parts.markup import rendered


def words(markup: str) -> str:
    """Return the text of markup, with one space between words."""
    return " ".join(re.sub(r"<[^>]+>", " ", markup).split())


def test_the_status_bar_counts_what_there_is_and_no_zeros(model):
    data = overview(model)
    head = rendered(
        "home_head", at=None, ends=data.ends, incidents=data.incidents, filters=GroupFilters(), stale={},
        counts=Counter(group.health for group in data.groups),
    )  # fmt: skip
    bar = words(head[head.index("<dl") :])

    assert bar.startswith("Groups 1 BAD 2 UNKNOWN 1 OK Open incidents 1 critical Last update ")
    assert "WARN" not in bar
