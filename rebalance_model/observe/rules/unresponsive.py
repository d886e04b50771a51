"""A client that is frozen, starved or cut off: its incident explains what becomes of its queues.

Each of its queues would otherwise be an incident of its own, and each would say to restart the same process.
"""

from rebalance_model.observe.group import deleted_group
from rebalance_model.observe.hooks import heartbeats
from rebalance_model.observe.rules.rule import Severity
from rebalance_model.observe.state import IncidentKey
from rebalance_model.observe.step import GroupStep

CLIENT_UNRESPONSIVE, STALE_HEARTBEAT = "CLIENT_UNRESPONSIVE", "STALE_HEARTBEAT"


def causes_of(step: GroupStep, broker: str, client_id: str | None) -> tuple[IncidentKey, ...]:
    """Return the client's open incidents that explain one of a queue of the broker (`Holds.explained_by`).

    Heartbeats are sent to each broker: only those that the queue's broker misses explain something.
    """
    incidents = step.state.incidents
    if not incidents or client_id is None:
        return ()
    keys = [key] if (key := IncidentKey(CLIENT_UNRESPONSIVE, client_id)) in incidents else []
    if (key := IncidentKey(STALE_HEARTBEAT, client_id)) in incidents and _is_missed_by(step, client_id, broker):
        keys.append(key)
    return tuple(keys)


def severity_of(step: GroupStep, code: str, client_id: str) -> Severity:
    """Return critical while an incident that it explains is, or a queue's that has alerts of its own; else warning."""
    own = step.state.incidents.get(IncidentKey(code, client_id))
    if own is None:
        return "warning"
    severities = (one.severity for one in step.state.incidents.values() if one.parent == own.incident_id)
    return "critical" if "critical" in severities else "warning"


def _is_missed_by(step: GroupStep, client_id: str, broker: str) -> bool:
    if deleted_group.since(step, broker):
        return True
    age = heartbeats.age_of(step.facts.calls_at(broker), client_id, step.now)
    return age is not None and age > step.policy.heartbeat_broker_interval
