"""`rebalance-watch incident close`: close an incident as a person, and open it again."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from schemas.rows import AlertControl
from streaming.base.errors import UserError
from streaming.base.place import Place, tables_of
from streaming.base.settings import load_settings
from streaming.base.shell import command_line
from streaming.base.times import now_ms, written
from streaming.base.visible import visible
from streaming.cli.author import actor, author
from streaming.queries.column import SHORT_ID

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
    from streaming.serve.operator_actions import recorded

    tables = tables_of(load_settings())
    with recorded(tables, actor(by), "CLOSE", incident_id, reason) as action:
        found = _incident(tables, incident_id)
        action.target = found.incident_id
        if found.resolved_at is not None:
            why = f" ({found.resolution})" if found.resolution else ""
            raise UserError(
                f"The incident {found.incident_id} was resolved at {written(found.resolved_at)}{why}: there is nothing "
                "to close."
            )
        _write(tables, "CLOSE", found, reason, by)
    again = command_line("rebalance-watch", "incident", "reopen", found.incident_id[:SHORT_ID])
    typer.echo(visible(f"closed: {_named(found)}; open it again with `{again}`"))


def reopen(
    incident_id: _Id,
    *,
    reason: Annotated[str, typer.Option(help="Reason, kept for reference.")] = "",
    by: _By = None,
) -> None:
    """Undo `incident close`: the incident is open again if its condition still holds, and its alert is sent again."""
    from streaming.serve.alerting.status import controls
    from streaming.serve.operator_actions import recorded

    tables = tables_of(load_settings())
    with recorded(tables, actor(by), "REOPEN", incident_id, reason) as action:
        found = _incident(tables, incident_id)
        action.target = found.incident_id
        row = controls(tables).closings.get(found.incident_id)
        if row is None or row.control != "CLOSE":
            raise UserError(
                f"Nobody has closed the incident {found.incident_id}: see who closed what with `rebalance-watch "
                "incident show ID`."
            )
        _write(tables, "REOPEN", found, reason or row.reason, by)
    typer.echo(visible(f"opened again: {_named(found)}"))


def _incident(tables: Place, beginning: str) -> "Incident":
    from streaming.queries.incidents import incident_of
    from streaming.tables.reader import ReadModel

    with ReadModel(tables) as model:
        return incident_of(model, beginning)


def _write(tables: Place, control: Literal["CLOSE", "REOPEN"], of: "Incident", reason: str, by: str | None) -> None:
    from streaming.serve.alerting.ledger import write_control

    if not (given := " ".join(reason.split())):
        raise UserError("Closing an incident needs a reason: give it with --reason.")
    if not (who := author() if by is None else " ".join(by.split())):
        raise UserError("The incident keeps who closed it: give a name with --by.")
    write_control(tables, AlertControl(
        time=now_ms(), control=control, control_id=of.incident_id, cluster=None, group=None, code=None, until=None,
        reason=given, author=who, severity=of.severity,
    ))  # fmt: skip


def _named(incident: "Incident") -> str:
    return " ".join(part for part in (incident.code, incident.group, incident.subject) if part)
