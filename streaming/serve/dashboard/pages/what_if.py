"""The page of a prediction: who would own a group's queues, and what would move, if members join or leave."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from streaming.base.errors import UserError
from streaming.base.language import gettext
from streaming.queries import labels
from streaming.queries.group_at import GroupAt, find_group
from streaming.queries.groups import read_group
from streaming.queries.plan import Plan, PlannedMove
from streaming.queries.present import HistoryBounds, history_ends
from streaming.queries.results import Group
from streaming.queries.rolling_restart import RollingRestart, rolling_restart
from streaming.queries.what_if import STRATEGIES, Prediction, what_if
from streaming.serve.dashboard.parts.frame import element, frame, stale
from streaming.serve.dashboard.parts.live import LivePage
from streaming.serve.dashboard.parts.markup import LiveMarkup
from streaming.serve.links import group_link, home_link, what_if_link
from streaming.serve.store import Store
from streaming.tables import ReadModel

_CLIENTS = 100
"""Above this number of clients, only those whose queues change are listed."""


_MOVES = 200
"""The maximum number of moved queues of a topic that are listed."""


class MembershipChange(NamedTuple):
    """The change that the user asks for, as it is in the address."""

    leave: tuple[str, ...]
    join: str
    """The number of new clients, or the id of one; empty or 0: none."""
    strategy: str
    """The strategy whose shares are listed; empty: the group's own."""
    restart: bool = False
    """True if a rolling restart of the members is planned, too."""


class WhatIfData(NamedTuple):
    """The values of the page."""

    ends: HistoryBounds
    group: Group
    prediction: Prediction
    restart: RollingRestart | str | None
    """The plan, or the sentence why there is none; None: it was not asked for."""


def _asked(model: ReadModel, name: str, cluster: str | None, change: MembershipChange, at: int | None) -> WhatIfData:
    group_at = find_group(model, name, cluster, at)
    join = [] if change.join in {"", "0"} else [change.join]
    prediction = what_if(model, group_at, leave=change.leave, join=join, strategy=change.strategy or None)
    restart = _restart(model, group_at) if change.restart else None
    return WhatIfData(history_ends(model, at), read_group(model, group_at), prediction, restart)


def _restart(model: ReadModel, group_at: GroupAt) -> RollingRestart | str:
    try:
        return rolling_restart(model, group_at)
    except UserError as error:
        return str(error)


class WhatIfPage(LivePage[WhatIfData]):
    """The plan of each strategy for a changed membership, from the group's queues now or at an instant."""

    def __init__(self, store: Store, group: str, cluster: str | None, change: MembershipChange, at: int | None) -> None:
        super().__init__(store, at)
        self._group, self._cluster, self._change = group, cluster, change

    async def ask(self) -> None:
        """Read the data of the page.

        Raises:
            UserError: the group is unknown or has no queues, the strategy is unknown, or see `what_if`.
        """
        self._data = await self._store.ask(_asked, self._group, self._cluster, self._change, self._at)

    def lay_out(self) -> None:
        """Create the page and show it."""
        group = self._data.group
        here = group_link(group.cluster, group.group, self._at)
        title = gettext("What if: {group}", group=group.group)
        frame(title, [(gettext("Groups"), home_link()), (group.group, here), (gettext("What if"), None)])
        with element("section", aria_label=gettext("Summary")):
            self._head = LiveMarkup("what_if_head")
        with element("section", "panel", aria_labelledby="change"):
            self._form = LiveMarkup("what_if_form")
        self._plans = LiveMarkup("what_if_plans")
        self._restart = LiveMarkup("what_if_restart")
        self._begin()

    def _show(self) -> None:
        ends, group, predicted, restart = self._data
        own = predicted.own
        stale(ends)
        self._head.show(
            group=group, joined=predicted.joined, leave=predicted.left, notes=predicted.caveats, at=self._at,
            here=group_link(group.cluster, group.group, self._at),
        )  # fmt: skip
        address = urlsplit(what_if_link(group.cluster, group.group, self._at))
        fixed = dict(parse_qsl(address.query))
        self._form.show(
            group=group,
            change=self._change._replace(leave=tuple(predicted.left)),
            address=address.path,
            fixed=fixed,
            strategies=STRATEGIES,
            own=own,
        )
        cost = predicted.cost
        self._plans.show(
            topics=[_topic(list(of), self._change) for _, of in groupby(predicted.plans, _name)], own=own,
            departures=predicted.departures, measured_pauses=labels.measured_pauses,
            measured=labels.measured_moves(cost.moves, cost.rebalances, cost.pause_ms_max),
        )  # fmt: skip
        here = what_if_link(group.cluster, group.group, self._at, restart=True)
        self._restart.show(restart=restart, here=here, members=len(group.members), refused=isinstance(restart, str))


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
    moves: Sequence[PlannedMove]
    """The moves that are listed."""


def _topic(plans: list[Plan], change: MembershipChange) -> _Topic:
    chosen = next((plan for plan in plans if plan.strategy == change.strategy), plans[0])
    shares = [
        (share.client_id, share.now, share.then, labels.queue_ranges(share.gains), labels.queue_ranges(share.loses))
        for share in chosen.listed(_CLIENTS)
    ]
    return _Topic(plans, chosen, shares, len(chosen.shares) - len(shares), chosen.moves[:_MOVES])
