"""`rebalance-watch incident close`: close an incident as a person, and open it again."""

from typing import TYPE_CHECKING, Annotated

import typer

from streaming.base.errors import UserError
from streaming.base.shell import command_line
from streaming.base.times import now_ms
from streaming.base.visible import visible
from streaming.cli.author import actor
from streaming.cli.output import tables_by_settings
from streaming.queries.columns.column import SHORT_ID

if TYPE_CHECKING:
    from streaming.queries.results import Incident

_Id = Annotated[str, typer.Argument(metavar="ID", help="Incident id, or a unique prefix of it.", show_default=False)]
_By = Annotated[str | None, typer.Option(help="Who does it; default: the user of this command.", show_default=False)]


def close(
    incident_id: _Id,
    *,
    reason: Annotated[str, typer.Option(help="Why it is closed; kept with the incident.")],
    by: _By = None,
) -> None:
    """Close an incident: it counts as resolved until it becomes worse.

    So do those that it explains and that have no alert of their own. Its alert is resolved, and it leaves the lists and
    counts of open incidents. What is observed stays: the health of its group and its queues is judged as before.
    """
    from streaming.serve.alerting import actions
    from streaming.serve.operator_actions import recorded

    tables, who = tables_by_settings(), actor(by)
    with recorded(tables, who, "CLOSE", incident_id, reason) as action:
        _check(reason, who.name)
        closed = actions.close(tables, incident_id, reason, who.name, now_ms())
        action.target = closed.incident_id
    again = command_line("rebalance-watch", "incident", "reopen", closed.incident_id[:SHORT_ID])
    typer.echo(visible(f"closed: {_named(closed)}; open it again with `{again}`"))


def reopen(
    incident_id: _Id,
    *,
    reason: Annotated[str, typer.Option(help="Reason, kept for reference.")] = "",
    by: _By = None,
) -> None:
    """Undo `incident close`: the incident is open again if its condition still holds, and its alert is sent again."""
    from streaming.serve.alerting import actions
    from streaming.serve.operator_actions import recorded

    tables, who = tables_by_settings(), actor(by)
    with recorded(tables, who, "REOPEN", incident_id, reason) as action:
        _check(reason or "as it was closed", who.name)
        found = actions.reopen(tables, incident_id, reason, who.name, now_ms())
        action.target = found.incident_id
    typer.echo(visible(f"opened again: {_named(found)}"))


def _check(reason: str, name: str) -> None:
    """Check what the options give.

    Raises:
        UserError: there is no reason, or no name.
    """
    if not reason.strip():
        raise UserError("Closing an incident needs a reason: give it with --reason.")
    if not name.strip():
        raise UserError("The incident keeps who closed it: give a name with --by.")


def _named(incident: "Incident") -> str:
    return " ".join(part for part in (incident.code, incident.group, incident.subject) if part)
