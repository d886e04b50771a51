"""The page of what people and programs did about the alerts of incidents, and by SQL: the audit trail."""

from typing import NamedTuple

from streaming.base.language import gettext, marked
from streaming.base.nearest import one_of
from streaming.queries.columns import RECORDED_ACTION
from streaming.queries.notifications import LAST, ActionKind, operator_actions
from streaming.queries.present import HistoryBounds, history_ends
from streaming.queries.results import RecordedAction
from streaming.serve.dashboard.parts.frame import element, frame
from streaming.serve.dashboard.parts.live import LivePage
from streaming.serve.dashboard.parts.markup import LiveMarkup
from streaming.serve.dashboard.parts.ordering import page_of
from streaming.serve.store import Store
from streaming.tables import ReadModel

_KINDS: dict[ActionKind | None, str] = {
    None: marked("Incidents and SQL"), "incident": marked("On incidents"), "sql": marked("SQL"),
}  # fmt: skip
_ROWS = 100


def kind_of(name: str) -> ActionKind | None:
    """Return the kind of actions of that name; empty: both.

    Raises:
        InvalidValueError: there is none.
    """
    kinds: dict[str, ActionKind | None] = {kind or "": kind for kind in _KINDS}
    return kinds[one_of("kind", name, kinds)]


class ActionsData(NamedTuple):
    """The values of the page."""

    ends: HistoryBounds
    actions: list[RecordedAction]
    cut: bool
    """True if there are more actions than were read."""


def _asked(model: ReadModel, kind: ActionKind | None) -> ActionsData:
    actions = operator_actions(model, kind=kind, last=LAST + 1)
    return ActionsData(history_ends(model), actions[:LAST], len(actions) > LAST)


class ActionsPage(LivePage[ActionsData]):
    """The last actions, the newest first."""

    def __init__(self, store: Store, kind: ActionKind | None, find: str) -> None:
        super().__init__(store)
        self._kind, self._find = kind, find.strip()

    async def ask(self) -> None:
        """Read the data of the page.

        Raises:
            UserError: there are no rows yet.
        """
        self._data = await self._store.ask(_asked, self._kind)

    def lay_out(self) -> None:
        """Create the page and show it."""
        frame(gettext("Actions"), [(gettext("Actions"), None)])
        with element("section", aria_label=gettext("Summary")):
            self._head = LiveMarkup("actions_head")
        with element("section", "panel", aria_labelledby="list"):
            self._table = LiveMarkup("actions_table", on_do=self._turner("actions"))
        self._begin()

    def _show(self) -> None:
        ends, actions, cut = self._data
        matching = [action for action in actions if self._find.lower() in _text(action)]
        self._head.show(total=len(matching), find=self._find)
        listed = page_of(matching, self._pages["actions"], _ROWS)
        self._table.show(
            actions=listed.rows, **listed.pager, columns=RECORDED_ACTION.page, cut=LAST if cut else None,
            now=ends.instant(None), find=self._find, kind=self._kind, kinds=_KINDS,
        )  # fmt: skip


def _text(action: RecordedAction) -> str:
    fields = action.name, action.subject, action.source, action.action, action.target, action.result, action.detail
    return " ".join(fields).lower()
