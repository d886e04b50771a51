"""The table of incidents of a page, and what it shows below a client or a queue."""

from typing import Any

from streaming.base.language import gettext
from streaming.queries.columns import INCIDENT
from streaming.queries.results import Incident
from streaming.serve.dashboard.parts.markup import LiveMarkup
from streaming.serve.dashboard.parts.ordering import Page

COLUMNS = tuple(
    INCIDENT[name] for name in ("headline", "severity", "group", "subject", "opened_at", "resolved_at", "duration")
)


def show_incidents_of_period(table: LiveMarkup, incidents: Page[Incident], **values: Any) -> None:
    """Show one page of the incidents of a period, with the values that the tables of the page have in common."""
    table.show(
        incidents=incidents.rows, **incidents.pager, columns=COLUMNS, cut=None,
        nothing=gettext("No incidents in this period."), **values,
    )  # fmt: skip
