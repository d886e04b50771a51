"""The lifecycle of an incident: pending (not reported), opened, escalated or de-escalated, reclassified, resolved.

Each rule returns a verdict; this module turns verdicts into transitions. Only an incident that was opened is resolved.
An unknown verdict freezes the incident: it neither opens nor resolves, and the time does not count.

A parent explains its children: either one of the codes in `Rule.absorbed_by`, or an incident that the verdict names
(`Holds.explained_by`). Children send no alerts, unless their rule says so (`Rule.alerts_as_child`), and never under one
about all members (`_OF_MEMBERS`). An incident that opened up to `ADOPTED_WITHIN` before its parent becomes its child
with a transition (DEESCALATED). A parent that is clear and only waits to be resolved (`Rule.clear_after`) gets no new
child; its children have that long to recover, and at least `RECOVERS_WITHIN`. A child that still holds when its parent
is resolved becomes independent at once (ESCALATED); so does one of which it is unknown. Where the child has alerts of
its own, both are RECLASSIFIED: nothing new is to be sent.

Where it usually comes and goes (`Rule.is_lasting`), an incident that comes back stays open until `RETURNS_WITHIN` after
the former one was opened: a person sees at most two in that time.

"Not applicable" is not unknown: an incident of a rule that the group can't meet, by how its members share the queues,
is resolved with that reason (`Suspended`).
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from rebalance_model.entities import MessageQueue, bounded
from rebalance_model.observe.effects import IncidentTransition, stable_id
from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.rules.rule import Advice, Clear, Evidence, Holds, Rule, StepT, Subject, Unit, Verdict
from rebalance_model.observe.state import IncidentKey, IncidentState, Pending
from rebalance_model.observe.step import BROKER_NAME_SHARED, COLLISION, PROXY_UNREACHABLE, Step

Transition: TypeAlias = Literal["OPENED", "ESCALATED", "DEESCALATED", "RECLASSIFIED", "RESOLVED"]
_RANK: dict[str, int] = {"info": 0, "warning": 1, "critical": 2}
_NOTHING_OPENS = ("HOOK_SILENT", "POLL_SILENT", "LATE", "BUFFER_FULL", "CLOCK_WRONG")
"""Sub-causes of sources that explain nothing: rules that need such a source are suspended, so nothing opens."""
_SOURCES = ("BROKER_UNREACHABLE", "TELEMETRY_GAP", BROKER_NAME_SHARED, PROXY_UNREACHABLE)
"""Codes that explain every incident of a queue, not only those whose rules name them."""
_OF_MEMBERS = ("CID_VIEW_SPLIT", "SUBSCRIPTION_INCONSISTENT")
"""Codes about all members of a group, as severe as what they explain: they and many queues are one alert, also of rules
whose incidents have alerts of their own under others."""
ADOPTED_WITHIN = 60_000
"""An incident that opened at most this long before its cause becomes a child of the cause; milliseconds."""
SEEN_LATE: Mapping[str, int] = {COLLISION: 180_000, "QUEUE_UNASSIGNED": 120_000}
"""The longer time of some causes, by their codes: by polls a collision looks like a closed connection for 130 s,
and a queue counts as unassigned only when its next owner has had time to take it."""
UNITS: Mapping[str, Unit] = {"clear_since": "epoch_ms"}
"""Units of the field added to a rule's evidence: since when it had been clear before it was resolved."""
RECOVERS_WITHIN = 45_000
"""An incident that is clear waits so long for those that it explains; milliseconds. A client takes a queue at its next
rebalance (20 s) and commits it within 5 s; both ends are seen by the next answer (10 s)."""
RETURNS_WITHIN = 1_800_000
"""Three incidents of such a rule and one subject are opened in no shorter time than this; milliseconds."""
NOT_APPLICABLE = "the rule does not apply: the members share the queues in another way"
"""The reason with which incidents end whose rule no longer applies to the group."""
_ENCODER = msgspec.json.Encoder(order="deterministic")


class Suspended(NamedTuple):
    """Codes of the rules that are not judged."""

    unknown: frozenset[str] = frozenset()
    """Their telemetry is missing: their verdict is unknown."""
    inapplicable: frozenset[str] = frozenset()
    """They do not apply to the group."""


NOTHING_SUSPENDED = Suspended()


class Advising(Protocol):
    """A rule, of whatever subject."""

    def advise(self, sub_cause: str) -> Advice:
        """Return the advice for a sub-cause."""
        ...


def apply(
    step: StepT, rules: Iterable[Rule[StepT, Subject]], subject: Subject, suspended: Suspended = NOTHING_SUSPENDED
) -> None:
    """Judge a subject by each rule about its kind, and bring its incidents to the state that the verdicts require."""
    subject_name, state = str(subject), step.state
    unknown, inapplicable = suspended
    for rule in rules:
        code = rule.code
        if code in inapplicable:
            end(step, (rule,), subject, NOT_APPLICABLE)
            continue
        verdict = rule.judge(step, subject) if code not in unknown else None
        is_known = subject_name in state.unsettled and (
            (code, subject_name) in state.incidents or (code, subject_name) in state.pending
        )
        if is_known or isinstance(verdict, Holds):
            _settle(step, rule, subject, IncidentKey(code, subject_name), verdict)


def end(step: StepT, rules: Iterable[Rule[StepT, Subject]], subject: Subject, why: str) -> None:
    """Resolve every incident of a subject that has ended, at once; what was pending is dropped.

    The reason ``why`` is for `effects.IncidentTransition.resolution`.
    """
    if str(subject) not in step.state.unsettled:
        return
    for rule in rules:
        key = IncidentKey(rule.code, str(subject))
        _drop_pending(step, subject, key)
        if (incident := step.state.incidents.get(key)) is not None:
            incident.count(step.now)
            _resolve(step, rule, subject, incident, why)


def resolve_unjudged(step: Step, rule: Advising, incident: IncidentState, why: str) -> None:
    """Write that an incident is resolved whose subject is no longer known: it has no evidence."""
    _emit(step, rule, incident, "RESOLVED", {}, why)


def _settle(step: StepT, rule: Rule[StepT, Subject], subject: Subject, key: IncidentKey, verdict: Verdict) -> None:
    incident = step.state.incidents.get(key)
    if incident is None:
        _before(step, rule, subject, key, verdict)
        return
    incident.count(step.now)
    waits = incident.cleared_at is not None and incident.reopened_after is not None
    if isinstance(verdict, Clear) or (verdict is None and waits):
        _clear(step, rule, subject, incident)
        return
    if incident.cleared_at is not None:
        incident.cleared_at, incident.holds_since = None, step.now
        step.touch(incident)
    if isinstance(verdict, Holds):
        _change(step, rule, subject, incident, verdict)
    elif _adopt(step, rule, incident, None):
        _emit(step, rule, incident, "DEESCALATED", rule.evidence(step, subject))


def _before(step: StepT, rule: Rule[StepT, Subject], subject: Subject, key: IncidentKey, verdict: Verdict) -> None:
    pending = step.state.pending.get(key)
    if isinstance(verdict, Holds):
        duration = verdict.duration_ms
        if duration is None:
            if pending is None:
                pending = step.state.pending[key] = Pending(step.now)
                _count(step, subject, +1)
            pending.thaw(step.now)
            duration = step.now - pending.since
        open_after = rule.open_after(step.policy)
        if duration >= open_after:
            _drop_pending(step, subject, key)
            _open(step, rule, subject, key, verdict)
        else:
            step.schedule_check(step.now + open_after - duration)
    elif isinstance(verdict, Clear):
        _drop_pending(step, subject, key)
    else:
        step.state.pending[key].freeze(step.now)  # otherwise there is nothing to settle (`apply`)


def _drop_pending(step: Step, subject: QueueFacts | str, key: IncidentKey) -> None:
    if step.state.pending.pop(key, None) is not None:
        _count(step, subject, -1)


def _count(step: Step, subject: QueueFacts | str, change: int) -> None:
    """Count one incident more or less about the subject."""
    unsettled, subject_name = step.state.unsettled, str(subject)
    unsettled[subject_name] = unsettled.get(subject_name, 0) + change
    if not unsettled[subject_name]:
        del unsettled[subject_name]


def _clear(step: StepT, rule: Rule[StepT, Subject], subject: Subject, incident: IncidentState) -> None:
    if incident.cleared_at is None:
        incident.cleared_at = step.now
        step.touch(incident)
    due = incident.cleared_at + rule.clear_after(step.policy)
    if due <= step.now < incident.cleared_at + RECOVERS_WITHIN and _explains_any(step, incident):
        due = incident.cleared_at + RECOVERS_WITHIN
    if incident.reopened_after is not None:
        due = max(due, incident.reopened_after + RETURNS_WITHIN)
    if due > step.now:
        step.schedule_check(due)
        return
    _resolve(step, rule, subject, incident, None)


def _explains_any(step: Step, incident: IncidentState) -> bool:
    """Return whether an incident that is more than an info is shown under this one."""
    children = (one for one in step.state.incidents.values() if one.parent == incident.incident_id)
    return any(one.severity != "info" for one in children)


def release(step: StepT, rule: Rule[StepT, Subject], subject: Subject, incident: IncidentState) -> None:
    """Make an incident independent whose parent is resolved; resolve it if it is clear, and only waits to be."""
    if incident.cleared_at is not None:
        _resolve(step, rule, subject, incident, None)
        return
    transition: Transition = "ESCALATED" if incident.absorbed else "RECLASSIFIED"
    _set_parent(rule, incident, None)
    _emit(step, rule, incident, transition, rule.evidence(step, subject))


def _resolve(
    step: StepT, rule: Rule[StepT, Subject], subject: Subject, incident: IncidentState, why: str | None
) -> None:
    del step.state.incidents[incident.key]
    _count(step, subject, -1)
    if rule.is_lasting:
        _note_opened(step, incident)
    step.resolved.add(incident.parent)
    cleared = incident.cleared_at
    waited: Evidence = {"clear_since": cleared} if cleared is not None and cleared < step.now else {}
    _emit(step, rule, incident, "RESOLVED", rule.evidence(step, subject) | waited, why)


def _note_opened(step: Step, incident: IncidentState) -> None:
    """Keep when a resolved incident was opened, for one that comes back; forget those that were opened long ago."""
    opened = step.state.opened
    opened.pop(incident.key, None)
    opened[incident.key] = incident.opened_at
    while opened[oldest := next(iter(opened))] + RETURNS_WITHIN <= step.now and oldest != incident.key:
        del opened[oldest]


def _opened_before(step: Step, key: IncidentKey) -> int | None:
    """Return when the former incident of the key was opened; None: it has not just come back."""
    at = step.state.opened.get(key)
    return at if at is not None and step.now - at < RETURNS_WITHIN else None


def _open(step: StepT, rule: Rule[StepT, Subject], subject: Subject, key: IncidentKey, verdict: Holds) -> None:
    state, queue = step.state, subject.mq if isinstance(subject, QueueFacts) else None
    stamp = verdict.stamp if verdict.stamp is not None else step.now
    incident = IncidentState(
        incident_id=stable_id(state.cluster, state.group, rule.code, str(subject), stamp),
        code=rule.code,
        subject=str(subject),
        opened_at=step.now,
        severity=verdict.severity,
        sub_cause=verdict.sub_cause,
        queue=queue,
        client_id=verdict.client_id,
        holds_since=step.now,
        counted_until=step.now,
        reopened_after=_opened_before(step, key),
    )
    _set_parent(rule, incident, _parent(step, rule, incident) or _named(step, verdict))
    incident.count(step.now)
    state.incidents[key] = incident
    _count(step, subject, +1)
    _emit(step, rule, incident, "OPENED", rule.evidence(step, subject))


def _parent_codes(rule: Rule[StepT, Subject], queue: MessageQueue | None) -> tuple[str, ...]:
    return rule.absorbed_by if queue is None else tuple(dict.fromkeys((*rule.absorbed_by, *_SOURCES)))


def _set_parent(rule: Rule[StepT, Subject], incident: IncidentState, parent: IncidentState | None) -> None:
    incident.parent = parent.incident_id if parent is not None else None
    absorbing = (*_parent_codes(rule, incident.queue), *_OF_MEMBERS)
    own_alerts = rule.alerts_as_child and parent is not None and parent.code not in absorbing
    incident.absorbed = parent is not None and not own_alerts


def _parent(step: StepT, rule: Rule[StepT, Subject], incident: IncidentState, since: int = 0) -> IncidentState | None:
    """Return an incident of the codes that absorb it that has held since ``since`` or later; None: there is none."""
    for parent in step.parents(_parent_codes(rule, incident.queue), incident.subject, incident.queue):
        explains = parent.cleared_at is None and parent.holds_since >= since
        explains = explains and (not since or step.now - since <= SEEN_LATE.get(parent.code, ADOPTED_WITHIN))
        if explains and not (parent.code == "TELEMETRY_GAP" and parent.sub_cause in _NOTHING_OPENS):
            return parent
    return None


def _named(step: Step, verdict: Holds) -> IncidentState | None:
    """Return the first incident that the verdict names as its explanation and that holds; None if there is none."""
    return next((parent for parent in _all_named(step, verdict) if parent.cleared_at is None), None)


def _all_named(step: Step, verdict: Holds) -> Iterator[IncidentState]:
    incidents = step.state.incidents
    return (incidents[key] for key in verdict.explained_by if key in incidents)


def _adopt(step: StepT, rule: Rule[StepT, Subject], incident: IncidentState, verdict: Holds | None) -> bool:
    """Make the incident a child of one that opened soon after it; return whether it has become one.

    One that is shown under another, and has alerts of its own, may yet be absorbed.
    """
    if incident.absorbed or step.now - incident.opened_at > max(ADOPTED_WITHIN, *SEEN_LATE.values()):
        return False
    parent = _parent(step, rule, incident, incident.opened_at)
    if parent is None and incident.parent is None and verdict is not None:
        parent = _named(step, verdict)
    if parent is not None:
        _set_parent(rule, incident, parent)
    return parent is not None


def _is_explained(step: StepT, rule: Rule[StepT, Subject], incident: IncidentState, verdict: Holds) -> bool:
    """Return whether the parent of the incident is still open, and explains it, or only waits to be resolved."""
    parents = step.parents(_parent_codes(rule, incident.queue), incident.subject, incident.queue)
    waiting = (one for one in step.state.incidents.values() if one.cleared_at is not None)
    return any(one.incident_id == incident.parent for one in chain(_all_named(step, verdict), parents, waiting))


def _change(step: StepT, rule: Rule[StepT, Subject], subject: Subject, incident: IncidentState, verdict: Holds) -> None:
    rise = _RANK[verdict.severity] - _RANK[incident.severity]
    reclassified = verdict.sub_cause != incident.sub_cause
    was_absorbed = incident.absorbed
    if incident.parent is not None and not _is_explained(step, rule, incident, verdict):
        _set_parent(rule, incident, _named(step, verdict))  # its parent is resolved, and it still holds
        reclassified = True
    elif _adopt(step, rule, incident, verdict):
        reclassified = True
    if was_absorbed != incident.absorbed:
        rise = -1 if incident.absorbed else max(rise, 1)
    if not rise and not reclassified:
        return
    incident.severity, incident.sub_cause, incident.client_id = verdict.severity, verdict.sub_cause, verdict.client_id
    incident.count(step.now)
    transition: Transition = "RECLASSIFIED" if not rise else "ESCALATED" if rise > 0 else "DEESCALATED"
    _emit(step, rule, incident, transition, rule.evidence(step, subject))


def _emit(
    step: Step,
    rule: Advising,
    incident: IncidentState,
    transition: Transition,
    evidence: Evidence,
    resolution: str | None = None,
) -> None:
    advice, queue = rule.advise(incident.sub_cause), incident.queue
    main = incident.main_cause
    main_advice = rule.advise(main.sub_cause)
    step.touch(incident)
    if incident.parent is not None and incident.severity == "critical":
        step.schedule_check(step.now)  # the severity of its parent may follow from it
    step.emit(
        IncidentTransition(
            **step.next_row(),
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
            evidence=_as_json(evidence),
            explanation=advice.what,
            first_step=(main_advice if transition == "RESOLVED" else advice).first_step,
            parent=incident.parent,
            absorbed=incident.absorbed,
            main_cause=main.sub_cause,
            main_client_id=main.client_id,
            main_explanation=main_advice.what,
            alert_after=step.alert_after(incident) if transition in {"OPENED", "ESCALATED"} else None,
            resolution=resolution,
        )
    )


def _as_json(evidence: Evidence) -> str:
    """Return the evidence as it is stored; a rate of any number of messages an hour fits."""
    fitting = {name: bounded(value) if type(value) is int else value for name, value in evidence.items()}
    return _ENCODER.encode(fitting).decode()
