"""The life of an incident: pending (silent), opened, escalated or de-escalated, reclassified, resolved.

Each rule gives a verdict; this module turns verdicts into transitions. Only what was opened is closed; a verdict that
is not known freezes: it neither opens nor resolves, and its time does not count.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.identity import stable_id
from rebalance_model.observe.state import GroupState, Incident, Pending
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.advice import advice
from rebalance_model.observe.verdicts.coverage import NEED_OFFSETS, NEED_POLLS
from rebalance_model.observe.verdicts.verdict import Clear, Evidence, Holds, Rule, Subject, Verdict

Transition: TypeAlias = Literal["OPENED", "ESCALATED", "DEESCALATED", "RECLASSIFIED", "RESOLVED"]
_RANK: dict[str, int] = {"info": 0, "warning": 1, "critical": 2}
_NOTHING_OPENS = ("HOOK_SILENT", "POLL_SILENT", "LATE", "BUFFER_FULL")
"""A source that is not heard explains nothing: on what it would have told nothing opens."""
_SOURCES = ("BROKER_UNREACHABLE", "TELEMETRY_GAP")
"""What explains whatever a queue shows, and not only the rules that name it."""
SILENT_WITHOUT_POLLS = frozenset((*NEED_POLLS, *NEED_OFFSETS))
_ENCODER = msgspec.json.Encoder(order="deterministic")


def apply(turn: Turn, rules: Iterable[Rule[Subject]], subject: Subject) -> None:
    """Judge by each rule, and bring the subject's incident to where the verdict says it is."""
    incidents, pending, told = turn.state.incidents, turn.state.pending, ""
    silent = SILENT_WITHOUT_POLLS if not turn.state.is_polled else ()
    for rule in rules:
        verdict = rule.judge(turn, subject) if rule.code not in silent else None
        holds = isinstance(verdict, Holds)
        if not (holds or incidents or pending):
            continue  # the usual case
        told = told or f" {subject}".rstrip()
        name = rule.code + told
        if holds or name in incidents or name in pending:
            _settle(turn, rule, subject, name, verdict)


def _settle(turn: Turn, rule: Rule[Subject], subject: Subject, name: str, verdict: Verdict) -> None:
    incident = turn.state.incidents.get(name)
    if incident is None:
        _before(turn, rule, subject, name, verdict)
    elif isinstance(verdict, Holds):
        incident.cleared_at = None
        _change(turn, rule, subject, incident, verdict)
    elif isinstance(verdict, Clear):
        _clear(turn, rule, subject, name, incident)
    else:
        incident.cleared_at = None


def _before(turn: Turn, rule: Rule[Subject], subject: Subject, name: str, verdict: Verdict) -> None:
    pending = turn.state.pending.get(name)
    if isinstance(verdict, Holds):
        held = verdict.held
        if held is None:
            pending = pending or turn.state.pending.setdefault(name, Pending(turn.now))
            pending.thaw(turn.now)
            held = turn.now - pending.since
        wanted = rule.open_after(turn.policy)
        if held >= wanted:
            turn.state.pending.pop(name, None)
            _open(turn, rule, subject, name, verdict)
        else:
            turn.schedule_check(turn.now + wanted - held)
    elif isinstance(verdict, Clear):
        turn.state.pending.pop(name, None)
    elif pending is not None:
        pending.freeze(turn.now)


def _clear(turn: Turn, rule: Rule[Subject], subject: Subject, name: str, incident: Incident) -> None:
    if incident.cleared_at is None:
        incident.cleared_at = turn.now
    due = incident.cleared_at + rule.clear_after(turn.policy)
    if due > turn.now:
        turn.schedule_check(due)
        return
    del turn.state.incidents[name]
    _tell(turn, incident, "RESOLVED", rule.evidence(turn, subject))


def _open(turn: Turn, rule: Rule[Subject], subject: Subject, name: str, verdict: Holds) -> None:
    state = turn.state
    queue = subject if isinstance(subject, MessageQueue) else None
    incident = Incident(
        incident_id=stable_id(state.cluster, state.group, rule.code, str(subject), turn.now),
        code=rule.code,
        subject=str(subject),
        opened_at=turn.now,
        severity=verdict.severity,
        sub_cause=verdict.sub_cause,
        queue=queue,
        client_id=verdict.client_id,
        parent=_parent(state, rule, str(subject), queue),
    )
    state.incidents[name] = incident
    _tell(turn, incident, "OPENED", rule.evidence(turn, subject))


def _parent(state: GroupState, rule: Rule[Subject], subject: str, queue: MessageQueue | None) -> str | None:
    """What explains it: of the same queue, of its broker, or of the whole group."""
    for code in rule.absorbed_by if queue is None else dict.fromkeys((*rule.absorbed_by, *_SOURCES)):
        for where in (subject, queue.broker if queue is not None else "", ""):
            parent = state.incidents.get(f"{code} {where}".rstrip())
            if parent is not None and not (code == "TELEMETRY_GAP" and parent.sub_cause in _NOTHING_OPENS):
                return parent.incident_id
    return None


def _is_open(state: GroupState, incident_id: str) -> bool:
    return any(incident.incident_id == incident_id for incident in state.incidents.values())


def _change(turn: Turn, rule: Rule[Subject], subject: Subject, incident: Incident, verdict: Holds) -> None:
    step = _RANK[verdict.severity] - _RANK[incident.severity]
    reclassified = verdict.sub_cause != incident.sub_cause
    if incident.parent is not None and not _is_open(turn.state, incident.parent):
        incident.parent, step = None, max(step, 1)  # what explained it is over, and it is not
    if not step and not reclassified:
        return
    incident.severity, incident.sub_cause, incident.client_id = verdict.severity, verdict.sub_cause, verdict.client_id
    transition: Transition = "RECLASSIFIED" if not step else "ESCALATED" if step > 0 else "DEESCALATED"
    _tell(turn, incident, transition, rule.evidence(turn, subject))


def _tell(turn: Turn, incident: Incident, transition: Transition, evidence: Evidence) -> None:
    explanation, first_step = advice(incident.code, incident.sub_cause)
    queue = incident.queue
    if queue is not None:
        turn.touched[queue] = None
    elif incident.code in _SOURCES:  # what its queues show changes with it
        turn.touched |= dict.fromkeys(mq for mq in turn.state.queues if incident.subject in (mq.broker, ""))
    turn.emit(
        IncidentTransition(
            **turn.next_row(),
            incident_id=incident.incident_id,
            code=incident.code,
            sub_cause=incident.sub_cause,
            severity=incident.severity,
            transition=transition,
            subject=incident.subject,
            opened_at=incident.opened_at,
            topic=queue.topic if queue is not None else None,
            broker=queue.broker if queue is not None else None,
            queue_id=queue.queue_id if queue is not None else None,
            client_id=incident.client_id,
            evidence=_ENCODER.encode(evidence).decode(),
            explanation=explanation,
            first_step=first_step,
            parent=incident.parent,
        )
    )
