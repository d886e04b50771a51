"""The page of a prediction: who would own a group's queues, and what would move, if members join or leave."""

from itertools import groupby
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from streaming.base.errors import UserError
from streaming.queries import labels
from streaming.queries.group_at import find_group
from streaming.queries.groups import group_of
from streaming.queries.plan import Plan
from streaming.queries.present import Ends, history_ends
from streaming.queries.results import Group
from streaming.queries.what_if import STRATEGIES, Prediction, what_if
from streaming.serve.dashboard.frame import element, frame, stale
from streaming.serve.dashboard.live_page import LivePage
from streaming.serve.dashboard.markup import LiveMarkup
from streaming.serve.links import HOME, group_link, what_if_link
from streaming.serve.store import Store
from streaming.tables import ReadModel

_CLIENTS = 100
"""Above this number of clients, only those whose queues change are listed."""


class Change(NamedTuple):
    """What the user asks for, as it is in the address."""

    leave: tuple[str, ...]
    join: str
    """The number of new clients, or the id of one; empty or 0: none."""
    strategy: str
    """Whose shares are listed; empty: the group's own."""


class Data(NamedTuple):
    """What the page shows."""

    ends: Ends
    group: Group
    prediction: Prediction


def _asked(model: ReadModel, name: str, cluster: str | None, change: Change, at: int | None) -> Data:
    group = group_of(model, find_group(model, name, cluster, at))
    join = [] if change.join in {"", "0"} else [change.join]
    return Data(history_ends(model), group, what_if(model, name, leave=change.leave, join=join, cluster=cluster, at=at))


class WhatIfPage(LivePage[Data]):
    """The plan of each strategy for a changed membership, from the group's queues now or at an instant."""

    def __init__(self, store: Store, group: str, cluster: str | None, change: Change, at: int | None) -> None:
        super().__init__(store, at)
        self._group, self._cluster, self._change = group, cluster, change

    async def ask(self) -> None:
        """Read the data of the page.

        Raises:
            UserError: the group is unknown or has no queues, the strategy is unknown, or see `what_if`.
        """
        strategy = self._change.strategy
        if strategy and strategy not in STRATEGIES:
            raise UserError(f"Unsupported strategy {strategy}. Use one of {', '.join(STRATEGIES)}.")
        self._data = await self._store.ask(_asked, self._group, self._cluster, self._change, self._at)

    def lay_out(self) -> None:
        """Create the page and show it."""
        group = self._data.group
        here = group_link(group.cluster, group.group, self._at)
        frame(f"What if: {group.group}", [("Groups", HOME), (group.group, here), ("What if", None)])
        with element("section", aria_label="Summary"):
            self._head = LiveMarkup("what_if_head")
        with element("section", "panel", aria_labelledby="change"):
            self._form = LiveMarkup("what_if_form")
        self._plans = LiveMarkup("what_if_plans")
        self._begin()

    def _show(self) -> None:
        ends, group, (own, joined, caveats, plans) = self._data
        stale(ends, self._at)
        notes = list(caveats)
        if group.unowned:
            notes.append(f"{group.unowned:,} queues have no owner now: whoever gets one counts as a move.")
        if group.health == "UNKNOWN":
            notes.append(f"What the group is like is not known for sure: {group.health_reason or 'no telemetry'}.")
        self._head.show(
            group=group, joined=joined, leave=self._change.leave, notes=notes, at=self._at, ends=ends,
            here=group_link(group.cluster, group.group, self._at),
        )  # fmt: skip
        address = urlsplit(what_if_link(group.cluster, group.group, self._at))
        fixed = dict(parse_qsl(address.query))
        self._form.show(
            group=group, change=self._change, address=address.path, fixed=fixed, strategies=STRATEGIES, own=own
        )
        self._plans.show(topics=[_topic(list(of), self._change) for _, of in groupby(plans, _name)], own=own)


def _name(plan: Plan) -> str:
    return plan.topic


class _Topic(NamedTuple):
    """The plans of a topic, and the one whose shares are listed."""

    plans: list[Plan]
    chosen: Plan
    shares: list[tuple[str, int, int, str, str]]
    """Client, queues before and after, gains, loses."""
    unchanged: int
    """Clients that are not listed because they keep their queues."""


def _topic(plans: list[Plan], change: Change) -> _Topic:
    chosen = next((plan for plan in plans if plan.strategy == change.strategy), plans[0])
    shown = chosen.listed(_CLIENTS)
    shares = [
        (one.client_id, one.now, one.then, labels.queue_ranges(one.gains), labels.queue_ranges(one.loses))
        for one in shown
    ]
    return _Topic(plans, chosen, shares, len(chosen.shares) - len(shown))
