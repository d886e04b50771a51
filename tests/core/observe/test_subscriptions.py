"""Subscriptions of a group's members, as the rules compare them."""

import tracemalloc

from rebalance_model.observe.events import Subscription
from rebalance_model.observe.facts.group_facts import interests_of
from rebalance_model.observe.state import ClientView

LONG = 100_000
MEMBERS = 100


def member(sub_string):
    return ClientView(asked=0, answered=0, subscriptions=(Subscription(topic="Orders", sub_string=sub_string),))


def test_long_subscriptions_are_compared_but_not_kept():
    members = [member(f"{number:0{LONG}}") for number in range(MEMBERS)]
    tracemalloc.start()
    try:
        assert all(len(interests_of(one)["Orders"][1]) == 1 for one in members)
        members.clear()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < LONG
