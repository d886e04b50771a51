"""CID_VIEW_SPLIT: the brokers of the group's topics list different members.

Each client requests the member list from one broker, chosen at random. So assignments alternate, and queues have two
owners or none. A client sends heartbeats to every broker: one that only some brokers list can't reach the others. No
event reports a closed channel, so the view built from a broker's hook may keep a member for a while after it is gone:
such a member counts only while it sends heartbeats.
"""

from rebalance_model.observe.group import deleted_group
from rebalance_model.observe.rules import route_view_split, stale_heartbeat, unresponsive
from rebalance_model.observe.rules.rule import CLEAR, OF_BROKER, Advice, Evidence, GroupRule, Holds, Verdict
from rebalance_model.observe.state import IncidentKey
from rebalance_model.observe.step import GroupStep

CODE = "CID_VIEW_SPLIT"


def judge(step: GroupStep, _: str) -> Verdict:
    """Compare the member lists of all brokers that answer or whose hook reports."""
    if len(step.state.views) < 2 or step.facts.division == "PROXIED":
        return CLEAR  # each broker with an embedded proxy lists only its own clients
    views = _views(step)
    if len(views) < 2:
        return None
    lacking = deleted_group.may_be_created(step)
    missing = [(member, broker) for member, broker in _missing(step, views) if broker not in lacking]
    if not missing:
        return CLEAR
    only = missing[0][0] if len({client_id for client_id, _ in missing}) == 1 else None
    severity = unresponsive.severity_of(step, CODE, "")
    return Holds(severity, client_id=only, explained_by=_causes(step, missing))


def evidence(step: GroupStep, _: str) -> Evidence:
    """Return which members are missing on which brokers."""
    views = _views(step)
    missing = _missing(step, views)
    fields: Evidence = {"brokers": len(views), "missing": len(missing)}
    if missing:
        fields["client"], fields["broker"] = missing[0]
    return fields | {f"members of {broker}": len(ids) for broker, (ids, _) in views.items()}


def is_split(step: GroupStep) -> bool:
    """Return whether brokers list different members now; clients of different brokers then compute different shares."""
    return len(step.state.views) > 1 and bool(_missing(step, _views(step)))


def explains(step: GroupStep) -> tuple[IncidentKey, ...]:
    """Return the rule's open incident (`Holds.explained_by`): by different lists, a queue may be in no share."""
    return (key,) if (key := IncidentKey(CODE)) in step.state.incidents else ()


def explains_pulls(step: GroupStep, broker: str, client_id: str | None) -> tuple[IncidentKey, ...]:
    """Return it if it says that the broker does not list the client: what the client sends does not arrive there."""
    keys = explains(step)
    return keys if keys and (client_id, broker) in _missing(step, _views(step)) else ()


def _causes(step: GroupStep, missing: list[tuple[str, str]]) -> tuple[IncidentKey, ...]:
    """Return the open incidents that say why members are missing, if there is one for each."""
    causes: list[IncidentKey] = []
    for client_id, broker in missing:
        is_of_routes = route_view_split.lacks_broker(step, client_id, broker)
        keys = (
            (IncidentKey(route_view_split.CODE),) if is_of_routes else stale_heartbeat.explains(step, broker, client_id)
        )
        if not keys:
            return ()
        causes += keys
    return tuple(dict.fromkeys(causes))


def _views(step: GroupStep) -> dict[str, tuple[set[str], set[str]]]:
    """Return the lists (`GroupFacts.lists`) of the brokers that have the group's queues."""
    serving = {mq.broker for mq, queue in step.state.queues.items() if queue.in_route}
    return {broker: one for broker, one in step.facts.lists.items() if broker in serving or not serving}


def _missing(step: GroupStep, views: dict[str, tuple[set[str], set[str]]]) -> list[tuple[str, str]]:
    """Return pairs of a member whose heartbeats one broker receives, and a broker that does not list it."""
    alive = set().union(*(alive for _, alive in views.values()))
    members = [member for member in step.state.members if member in alive]
    return [(member, broker) for member in members for broker in sorted(views) if member not in views[broker][0]]


RULE = GroupRule(
    CODE,
    judge,
    evidence,
    follows=("MEMBERS", "CHANNELS", "SUBSCRIPTIONS", "ROUTES"),
    title="Brokers disagree about the members of {group}",
    units={"brokers": "count", "missing": "count", "client": "text", "broker": "text", "members of *": "count"},
    needs=("LISTS",),
    open_after=lambda policy: policy.view_split_after,
    absorbed_by=(*OF_BROKER, "TELEMETRY_GAP", "REBALANCE_STORM"),
    advice={
        "": Advice(
            what=(
                "Brokers list different members: clients that query different brokers compute different assignments, "
                "and some queues get two owners or none."
            ),
            first_step=(
                "Check why the missing client's heartbeats do not reach that broker: network, or its broker list."
            ),
            inspect=("MEMBERS",),
        ),
    },
)
