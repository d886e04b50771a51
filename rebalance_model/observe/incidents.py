"""The life of an incident: opened, escalated or de-escalated, reclassified, resolved.

Each rule gives a verdict; this module turns verdicts into transitions. Only what was opened is closed; UNKNOWN
freezes, it neither opens nor resolves.
"""

from typing import Literal

import msgspec

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.advice import advice
from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.identity import stable_id
from rebalance_model.observe.state import Incident
from rebalance_model.observe.turn import Turn

Severity = Literal["info", "warning", "critical"]
_RANK: dict[str, int] = {"info": 0, "warning": 1, "critical": 2}
_ENCODER = msgspec.json.Encoder(order="deterministic")


class Holds(msgspec.Struct, frozen=True):
    """The rule holds: what is wrong is there."""

    severity: Severity
    sub_cause: str
    client_id: str | None
    evidence: dict[str, int | str | bool | None]


class Clear(msgspec.Struct, frozen=True):
    """The rule does not hold, on good evidence."""

    evidence: dict[str, int | str | bool | None]


Verdict = Holds | Clear | None
"""None: not known, or not yet; nothing changes."""


def apply(turn: Turn, code: str, mq: MessageQueue, verdict: Verdict) -> None:
    """Bring the incident of this rule and queue to where the verdict says it is."""
    name = f"{code} {mq}"
    incident = turn.state.incidents.get(name)
    if verdict is None or (incident is None and isinstance(verdict, Clear)):
        return
    turn.touched[mq] = None
    if isinstance(verdict, Clear):
        incident = turn.state.incidents.pop(name)
        _tell(turn, incident, "RESOLVED", verdict.evidence)
    elif incident is None:
        _open(turn, name, code, mq, verdict)
    else:
        _change(turn, incident, verdict)


def _open(turn: Turn, name: str, code: str, mq: MessageQueue, verdict: Holds) -> None:
    state = turn.state
    incident = Incident(
        incident_id=stable_id(state.cluster, state.group, code, str(mq), turn.time),
        code=code,
        subject=str(mq),
        opened_at=turn.time,
        severity=verdict.severity,
        sub_cause=verdict.sub_cause,
        queue=mq,
        client_id=verdict.client_id,
    )
    state.incidents[name] = incident
    _tell(turn, incident, "OPENED", verdict.evidence)


def _change(turn: Turn, incident: Incident, verdict: Holds) -> None:
    step = _RANK[verdict.severity] - _RANK[incident.severity]
    reclassified = verdict.sub_cause != incident.sub_cause
    incident.severity, incident.sub_cause, incident.client_id = verdict.severity, verdict.sub_cause, verdict.client_id
    if step:
        _tell(turn, incident, "ESCALATED" if step > 0 else "DEESCALATED", verdict.evidence)
    elif reclassified:
        _tell(turn, incident, "RECLASSIFIED", verdict.evidence)


def _tell(
    turn: Turn,
    incident: Incident,
    transition: Literal["OPENED", "ESCALATED", "DEESCALATED", "RECLASSIFIED", "RESOLVED"],
    evidence: dict[str, int | str | bool | None],
) -> None:
    explanation, first_step = advice(incident.code, incident.sub_cause)
    turn.emit(
        IncidentTransition(
            cluster=turn.state.cluster,
            group=turn.state.group,
            time=turn.time,
            seq=turn.next_seq(),
            cause=turn.cause,
            incident_id=incident.incident_id,
            code=incident.code,
            sub_cause=incident.sub_cause,
            severity=incident.severity,
            transition=transition,
            subject=incident.subject,
            opened_at=incident.opened_at,
            topic=incident.queue.topic,
            broker=incident.queue.broker,
            queue_id=incident.queue.queue_id,
            client_id=incident.client_id,
            evidence=_ENCODER.encode(evidence).decode(),
            explanation=explanation,
            first_step=first_step,
            parent=None,
        )
    )
