"""A rebalance's page: why it happened, what moved, what it cost."""

from streaming.dashboard.frame import frame
from streaming.dashboard.links import HOME, group_link
from streaming.dashboard.markup import LiveMarkup
from streaming.dashboard.paging import page_of, turned
from streaming.dashboard.palette import colours, short_names
from streaming.queries.answers import Rebalance
from streaming.queries.rebalances import rebalance
from streaming.web.store import Store

_MOVES = 50


class RebalancePage:
    """One settled rebalance; it does not change any more."""

    def __init__(self, store: Store, group: str, cluster: str | None, rebalance_id: str) -> None:
        self._store = store
        self._wanted = group, rebalance_id, cluster
        self._told: Rebalance

    async def ask(self) -> None:
        """Get what the page shows.

        Raises:
            UserError: there is no such group, or it has no such rebalance.
        """
        self._told = await self._store.ask(rebalance, *self._wanted)

    def lay_out(self) -> None:
        """Make the page and show it."""
        told = self._told
        frame(f"Rebalance of {told.group}", [
            ("Groups", HOME),
            (told.group, group_link(told.cluster, told.group, told.start_time)),
            ("Rebalance", None),
        ])  # fmt: skip
        self._markup = LiveMarkup("rebalance", on_do=lambda word: self._show(turned(word)))
        self._show(0)

    def _show(self, page: int) -> None:
        told = self._told
        clients = {*told.members_before, *told.members_after, told.trigger_client} | {
            client for move in told.moves for client in (move.from_client, move.to_client)
        }
        known = [client for client in clients if client is not None]
        moves = page_of(told.moves, page, _MOVES)
        self._markup.show(
            r=told, colours=colours(known), short=short_names(known),
            joined=set(told.members_after) - set(told.members_before),
            left=[member for member in told.members_before if member not in told.members_after],
            moves=moves.rows, page=moves.page, pages=moves.pages, total=len(told.moves),
            here=group_link(told.cluster, told.group, told.start_time),
            before=group_link(told.cluster, told.group, told.start_time - 1, "15m"),
            after=group_link(told.cluster, told.group, told.end_time, "15m"),
        )  # fmt: skip
