"""Incidents of rebalance-watch itself, which no rule of the core finds, as transitions for the dispatcher."""

import msgspec

from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.identity import stable_id


def opened(
    code: str, cluster: str, subject: str, *, since: int, now: int, severity: str, evidence: object,
    advice: tuple[str, str],
) -> IncidentTransition:  # fmt: skip
    """Return the opening of an incident.

    Args:
        code: its code.
        cluster: empty for all.
        subject: what it is about.
        since: when it began, epoch milliseconds.
        now: when it was found.
        severity: of the incident.
        evidence: what JSON can hold.
        advice: what it means, and what to do first.
    """
    explanation, first_step = advice
    return msgspec.convert(
        {
            "cluster": cluster, "group": "", "time": now, "known_at": now, "seq": 1, "cause": "",
            "incident_id": stable_id(cluster, "", code, subject, since), "code": code, "sub_cause": "",
            "severity": severity, "transition": "OPENED", "subject": subject, "opened_at": since, "topic": None,
            "broker": None, "queue_id": None, "client_id": None, "evidence": _json(evidence),
            "explanation": explanation, "first_step": first_step, "parent": None,
        },
        IncidentTransition,
    )  # fmt: skip


def resolved(last: IncidentTransition, now: int, evidence: object) -> IncidentTransition:
    """Return the end of an incident."""
    time = max(now, last.time)
    return msgspec.structs.replace(
        last, time=time, known_at=time, seq=last.seq + 1, transition="RESOLVED", evidence=_json(evidence)
    )


def _json(evidence: object) -> str:
    return msgspec.json.encode(evidence).decode()
