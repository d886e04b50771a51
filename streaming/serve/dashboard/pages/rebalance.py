"""The page of a rebalance: causes, moves and cost."""

from streaming.base.language import gettext
from streaming.queries.group_at import find_group
from streaming.queries.rebalances import rebalance
from streaming.queries.results import Rebalance
from streaming.serve.dashboard.parts.frame import frame
from streaming.serve.dashboard.parts.markup import LiveMarkup
from streaming.serve.dashboard.parts.ordering import page_of, turned
from streaming.serve.dashboard.parts.palette import colours, short_names
from streaming.serve.links import group_link, home_link
from streaming.serve.store import Store
from streaming.tables import ReadModel

_MOVES = 50


def _asked(model: ReadModel, group: str, cluster: str | None, rebalance_id: str) -> Rebalance:
    return rebalance(model, find_group(model, group, cluster), rebalance_id)


class RebalancePage:
    """One settled rebalance, which does not change any more."""

    def __init__(self, store: Store, group: str, cluster: str | None, rebalance_id: str) -> None:
        self._store = store
        self._name = group, cluster, rebalance_id
        self._rebalance: Rebalance

    async def ask(self) -> None:
        """Read the data of the page.

        Raises:
            UserError: the group or the rebalance is unknown.
        """
        self._rebalance = await self._store.ask(_asked, *self._name)

    def lay_out(self) -> None:
        """Create the page and show it."""
        rebalance = self._rebalance
        frame(gettext("Rebalance of {group}", group=rebalance.group), [
            (gettext("Groups"), home_link()),
            (rebalance.group, group_link(rebalance.cluster, rebalance.group, rebalance.start_time)),
            (gettext("Rebalance"), None),
        ])  # fmt: skip
        self._markup = LiveMarkup("rebalance", on_do=lambda word: self._show(turned(word)))
        self._show(0)

    def _show(self, page: int) -> None:
        rebalance = self._rebalance
        clients = {*rebalance.members_before, *rebalance.members_after, rebalance.trigger_client} | {
            client for move in rebalance.moves for client in (move.from_client, move.to_client)
        }
        named = [client for client in clients if client is not None]
        moves = page_of(rebalance.moves, page, _MOVES)
        self._markup.show(
            r=rebalance, colours=colours(named), short=short_names(named),
            joined=set(rebalance.members_after) - set(rebalance.members_before),
            left=[member for member in rebalance.members_before if member not in rebalance.members_after],
            moves=moves.rows, **moves.pager,
            here=group_link(rebalance.cluster, rebalance.group, rebalance.start_time),
            before=group_link(rebalance.cluster, rebalance.group, rebalance.start_time - 1, "15m"),
            after=group_link(rebalance.cluster, rebalance.group, rebalance.end_time, "15m"),
        )  # fmt: skip
