"""STALE_HEARTBEAT: a member has not sent a heartbeat for two intervals.

The broker drops it after 120 to 130 s and notifies no other client: its queues wait until the others rebalance by
timer, up to 20 s later. Clear at a heartbeat, or when the member is gone. One whose connection to another broker has
closed is gone from each, and not judged.

REFUSED: its heartbeats arrive, and the broker answers them with an error, as an ACL does if one topic of the process is
not permitted. GROUP_NOT_CREATED: they are accepted, and the broker does not register the group. Both from the first one
on, also after the broker has dropped the member, until its heartbeats are taken or end. What follows is shown under
it: the broker does not list the member, and refuses its pulls. TOO_SELDOM: a client that was dropped has pulled on,
was refused, and then sent its next heartbeat: they are further apart than the broker waits. It stays open until one
comes in time. By polls, GROUP_NOT_CREATED is known by the broker's
list of groups, and opens after two intervals: a heartbeat may be what creates the group.
"""

from collections.abc import Collection, Iterator

from rebalance_model.observe.group import deleted_group, ghost_connections
from rebalance_model.observe.hooks import heartbeats
from rebalance_model.observe.rules import concerns, unresponsive
from rebalance_model.observe.rules.rule import CLEAR, Advice, ClientRule, Evidence, Holds, Severity, Verdict
from rebalance_model.observe.state import HookView, IncidentKey, RefusedHeartbeats, SeldomHeartbeats
from rebalance_model.observe.step import GroupStep

CODE = unresponsive.STALE_HEARTBEAT
ROUND_WITHIN = 1_000
"""A client sends its heartbeats to all brokers within this time; milliseconds."""


def judge(step: GroupStep, client_id: str) -> Verdict:
    """Compare with each broker's clock; one broker without heartbeats of the member is enough."""
    severity: Severity
    if (found := _refused(step, client_id)) is not None:
        refused, limit = found[1], 2 * step.policy.heartbeat_broker_interval
        step.schedule_check(refused.last + limit + 1)
        is_long = step.now - refused.since > limit
        severity = "critical" if is_long else unresponsive.severity_of(step, CODE, client_id)
        return Holds(severity, "REFUSED" if refused.code else "GROUP_NOT_CREATED", client_id, stamp=refused.since)
    if (seldom := _seldom(step, client_id)) is not None:
        step.schedule_check(seldom[1].last + 2 * seldom[1].interval + 1)
        return Holds("critical", "TOO_SELDOM", client_id, stamp=seldom[1].since)
    if client_id not in step.facts.members:
        return CLEAR
    if (lacking := _not_created(step, client_id)) is not None:
        opens_at = deleted_group.two_intervals_after(step, lacking[1])
        if step.now >= opens_at:
            return Holds("critical", "GROUP_NOT_CREATED", client_id, stamp=lacking[1])
        step.schedule_check(opens_at)
    return _judge_age(step, client_id)


def _judge_age(step: GroupStep, client_id: str) -> Verdict:
    """Compare the ages of a member's last heartbeats with two intervals."""
    verdict: Verdict = CLEAR if _is_registered(step, client_id) else None
    limit, waits = 2 * step.policy.heartbeat_broker_interval, False
    for _, hook, age in _ages(step, client_id):
        if age > limit and not _has_closed(step, client_id, hook):
            cause = IncidentKey(unresponsive.CLIENT_UNRESPONSIVE, client_id)
            return Holds(unresponsive.severity_of(step, CODE, client_id), client_id=client_id, explained_by=(cause,))
        waits = waits or age > limit
        step.schedule_check(step.now + (ROUND_WITHIN if age > limit else limit + 1 - age))
        if step.now - hook.heartbeats[client_id].last <= limit:
            verdict = CLEAR
    return None if waits else verdict


def evidence(step: GroupStep, client_id: str) -> Evidence:
    """Return the broker and the age of the last heartbeat (ms)."""
    if (refused_at := _refused(step, client_id)) is not None:
        refused = refused_at[1]
        return {
            "broker": refused_at[0],
            "code": refused.code,
            "refused": refused.count,
            "refused_since": refused.since,
            "heartbeat_age_ms": step.now - refused.last,
        }
    if (seldom_at := _seldom(step, client_id)) is not None:
        broker, seldom = seldom_at
        fields: Evidence = {
            "broker": broker,
            "interval_ms": seldom.interval,
            "heartbeat_age_ms": step.now - seldom.last,
        }
        return fields | {"limit_ms": step.policy.channel_expired_after}
    if (lacking := _not_created(step, client_id)) is not None:
        return {"broker": lacking[0], "not_created_since": lacking[1]}
    oldest, _, age = max(_ages(step, client_id), key=lambda found: found[2], default=(None, None, None))
    return {
        "broker": oldest,
        "heartbeat_age_ms": age,
        "limit_ms": 2 * step.policy.heartbeat_broker_interval,
        "dropped_after_ms": step.policy.channel_expired_after,
    }


def explains(step: GroupStep, broker: str, client_id: str | None) -> tuple[IncidentKey, ...]:
    """Return the open incidents of clients whose heartbeats the broker does not take, for `Holds.explained_by`.

    The client may be unknown (None): it may be any of them.
    """
    calls = step.facts.calls_at(broker)
    refused: Collection[str] = {**calls.refused_heartbeats, **calls.seldom_heartbeats}
    if deleted_group.since(step, broker):
        refused = step.state.members
    found = refused if client_id is None else (client_id,) if client_id in refused else ()
    keys = (IncidentKey(CODE, one) for one in found)
    return tuple(key for key in keys if key in step.state.incidents)


def comes_back(step: GroupStep, key: IncidentKey) -> bool:
    """Return whether an open incident follows from heartbeats that come too seldom: the next gap leads to it again."""
    own = step.state.incidents.get(key)
    if own is None or own.parent is None:
        return False
    found = (one for one in step.state.incidents.values() if one.incident_id == own.parent)
    return any((one.code, one.sub_cause, one.cleared_at) == (CODE, "TOO_SELDOM", None) for one in found)


def _refused(step: GroupStep, client_id: str) -> tuple[str, RefusedHeartbeats] | None:
    """Return the broker that does not take the client's heartbeats, and since when; None if there is none."""
    for broker, hook in step.facts.hooks.items():
        if (refused := ghost_connections.find_refused(hook, client_id, step.now, step.policy)) is not None:
            return broker, refused
    return None


def _seldom(step: GroupStep, client_id: str) -> tuple[str, SeldomHeartbeats] | None:
    """Return the broker that drops the client between its heartbeats, and these; None if there is none."""
    for broker, hook in step.facts.hooks.items():
        if (found := heartbeats.seldom(hook, client_id, step.now)) is not None:
            return broker, found
    return None


def _not_created(step: GroupStep, client_id: str) -> tuple[str, int] | None:
    """Return the broker that lacks the group for longest, of those that do not list the client, and since when."""
    lacking = [(at, broker) for broker, at in deleted_group.brokers(step).items()]
    found = [(at, broker) for at, broker in lacking if not step.state.views[broker].lists(client_id)]
    return min(found)[::-1] if found else None


def _is_registered(step: GroupStep, client_id: str) -> bool:
    """Return whether the broker that lacked the group lists the client, and so do all that answer polls."""
    own = step.state.incidents.get(IncidentKey(CODE, client_id))
    polled = [view for view in step.state.views.values() if view.asked]
    return own is not None and own.sub_cause == "GROUP_NOT_CREATED" and all(view.lists(client_id) for view in polled)


def _ages(step: GroupStep, client_id: str) -> Iterator[tuple[str, HookView, int]]:
    """Yield the age of its last heartbeat (ms) on each broker whose hook reports without lost events."""
    for broker, hook in step.facts.hooks.items():
        if (age := heartbeats.age_of(hook, client_id, step.now)) is not None:
            yield broker, hook, age


def _has_closed(step: GroupStep, client_id: str, hook: HookView) -> bool:
    """Return whether a client is gone here, too, since another broker dropped it before 120 s without a heartbeat.

    A process that ends closes its connections to all brokers, and each drops it at once; but the others ask any one of
    them for the list of members. A broker that has listed the client since its missing heartbeat has not dropped it.
    If the client has just come back to another broker, its next heartbeat is for this one. A broker to which no member
    sends heartbeats may have none of the group's topics: it shows nothing.
    """
    interval, last = step.policy.heartbeat_broker_interval, hook.heartbeats[client_id].last
    listed_at = max((asking.last for asking in hook.rebalance_loops.values()), default=0)
    hooks = (one for one in step.facts.hooks.values() if one.heartbeats and not one.skips_group)
    others = [one for one in hooks if one.covered_since + interval <= last]
    return listed_at <= last + interval and any(
        step.now - other.heartbeats[client_id].last <= ROUND_WITHIN
        if client_id in other.heartbeats
        else client_id not in other.expired
        for other in others
    )


RULE = ClientRule(
    CODE,
    judge,
    evidence,
    title="No heartbeat from {subject}",
    units={
        "broker": "text",
        "code": "count",
        "refused": "count",
        "refused_since": "epoch_ms",
        "not_created_since": "epoch_ms",
        "heartbeat_age_ms": "ms",
        "interval_ms": "ms",
        "limit_ms": "ms",
        "dropped_after_ms": "ms",
    },
    sub_causes=("", "REFUSED", "TOO_SELDOM", "GROUP_NOT_CREATED"),
    concerns=concerns.BEATS,
    absorbed_by=("BROKER_NAME_SHARED",),  # the client's go to the other broker
    needs=("HOOKS",),
    advice={
        "": Advice(
            what=(
                "The member has sent no heartbeat for two intervals; the broker drops it after 120 s without notice."
            ),
            first_step="Check whether its process is paused, starved, or cut off from this broker.",
            inspect=("MEMBERS", "THREADS"),
        ),
        "REFUSED": Advice(
            short="the broker refuses them",
            what=(
                "The client's heartbeats arrive, and the broker refuses them: it drops the member after 120 s, and "
                "then refuses its pulls."
            ),
            first_step=(
                "Read the broker's log for the reason; with an ACL, permit every topic and group of the process, since "
                "one that is missing refuses the whole heartbeat."
            ),
            inspect=("MEMBERS",),
        ),
        "TOO_SELDOM": Advice(
            short="they come too seldom",
            what=(
                "The client runs and pulls, and its heartbeats are further apart than the broker waits for them (120 "
                "s): each time the broker drops it, and refuses its pulls until the next one."
            ),
            first_step="Lower the client's heartbeatBrokerInterval: 30 s is the default.",
            inspect=("MEMBERS",),
        ),
        "GROUP_NOT_CREATED": Advice(
            short="the group was not created on the broker",
            what=(
                "The broker accepts the client's heartbeats and does not register the group: it was not created on "
                "this broker, and nothing is consumed from it."
            ),
            first_step="Create the group on this broker: mqadmin updateSubGroup.",
            inspect=("BROKERS", "MEMBERS"),
        ),
    },
)
