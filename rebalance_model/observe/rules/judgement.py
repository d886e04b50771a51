"""Decide which rules are judged at a step: those about what the step has changed; at a deadline, all of them.

A rule is judged as soon as there is new information about its subject. A rule whose verdict time alone may change
schedules a check (`Step.schedule_check`), at which everything of the group is judged again. That is simpler than an
index by rule and subject, and rare: a group is checked about every 30 s, one of many queues at most once a second.
"""

from collections.abc import Iterable
from functools import cache

import msgspec

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.facts.queue_facts import QueueFacts, of_queues
from rebalance_model.observe.group import ended_queues, membership, route_views
from rebalance_model.observe.group.deleted_group import GROUP_DELETED, is_deleted
from rebalance_model.observe.hooks import released_queues
from rebalance_model.observe.rules import concerns, duplicate_consumption, no_active_clients_with_lag, route_view_split
from rebalance_model.observe.rules.coverage import inapplicable
from rebalance_model.observe.rules.lifecycle import NOTHING_SUSPENDED, Suspended, apply, end, release, resolve_unjudged
from rebalance_model.observe.rules.registry import (
    BROKER_RULES,
    CLIENT_RULES,
    GROUP_RULES,
    POPPED_QUEUE_RULES,
    PULLED_QUEUE_RULES,
    QUEUE_RULES,
    REBALANCE_RULES,
    RULES,
    client_rules,
    codes_needing,
    group_rules,
    queue_rules,
)
from rebalance_model.observe.rules.rule import ClientRule, ClusterRule, Need, QueueRule, Rule, Subject
from rebalance_model.observe.rules.state_lost import BEGAN_AGAIN
from rebalance_model.observe.state import CLUSTERING, PUSH, GroupState, IncidentState, LostState
from rebalance_model.observe.step import ALL, GroupStep

POPPED = "its topic is popped: clients share its queues"
"""The reason with which incidents end that only a pulled queue can have."""
ENDS_FOLLOW = ALL | {"MEMBERS", "DECLARED", "SUBSCRIPTIONS", "PROXIES", "OFFSETS"}
ROUTE_VIEWS_FOLLOW = ALL | set(route_view_split.RULE.follows)
_OF_OTHERS = (*CLIENT_RULES, *REBALANCE_RULES, *GROUP_RULES)
_OF_CLIENTS = frozenset(rule.code for rule in CLIENT_RULES)


def judge(step: GroupStep) -> dict[MessageQueue, QueueFacts]:
    """Judge what the step has changed; broad causes come first, so that their children find them open.

    Returns:
        The queues that were judged.
    """
    if not step.state.members and is_deleted(step.state, step.now):
        end_all(step, GROUP_DELETED)
        return {}
    if _is_quiet(step):
        return {}
    if step.changes:
        _derive(step)
    suspended = _suspended(step)
    for broker in filter(None, step.brokers_to_judge):  # one without a name would have the group's own incidents
        apply(step, BROKER_RULES, broker, suspended)
    if step.changes:
        _judge_open(step)
        rules = GROUP_RULES if "" in step.state.unsettled else group_rules(frozenset(step.changes))
        apply(step, rules, "", suspended)
    for client_id in step.clients_to_judge:
        apply(step, _rules_of(step, client_id), client_id, suspended)
    flags = concerns.of_queues(step)
    judged = of_queues(step.facts, flags)
    for mq, q in judged.items():
        _judge_queue(step, q, flags[mq], suspended)
    if judged or step.state.reread:
        for rebalance_id in duplicate_consumption.note(step, judged.values()):
            apply(step, REBALANCE_RULES, rebalance_id, suspended)
        duplicate_consumption.forget(step)
    _end_inapplicable(step, suspended)
    _release_children(step, suspended)
    return judged


def _is_quiet(step: GroupStep) -> bool:
    """Return whether no rule judges a queue or a client of the step, nor the group, as after most answers."""
    names_any = step.queues_to_judge or step.clients_to_judge or step.brokers_to_judge
    if not (names_any or step.group_touched or step.state.reread):
        return True  # most pulls and commits
    is_shown = step.group_touched and step.state.incidents
    if step.changes or step.brokers_to_judge or step.state.reread or is_shown or concerns.of_queues(step):
        return False
    return not any(_rules_of(step, client_id) for client_id in step.clients_to_judge)


def _suspended(step: GroupStep) -> Suspended:
    """Return the codes that are not judged of the group, by what reports it and how its members share the queues."""
    missing = step.facts.missing
    suspended = _lacking(missing) if missing else NOTHING_SUSPENDED
    if _locks_queues(step.state) or (step.state.members and step.facts.is_divided):
        return suspended
    return Suspended(suspended.unknown, inapplicable(step))


@cache
def _lacking(missing: tuple[Need, ...]) -> Suspended:
    """Return the rules that are suspended where something is missing; calls alone show that nobody came back."""
    return Suspended(codes_needing(*missing) - {no_active_clients_with_lag.CODE})


def _locks_queues(state: GroupState) -> bool:
    """Return whether the members divide the queues by locks: to every rule that is the usual case, found at once."""
    is_pushed = state.consume_type == PUSH and state.message_model == CLUSTERING
    return bool(state.members and state.orderly and is_pushed)


def _end_inapplicable(step: GroupStep, suspended: Suspended) -> None:
    """Resolve the incidents of rules that do not apply to the group any more, of whatever subject."""
    incidents = step.state.incidents
    if not (incidents and suspended.inapplicable and step.group_touched):
        return
    for incident in [one for one in incidents.values() if one.code in suspended.inapplicable]:
        _judge_one(step, incident, suspended)


def _release_children(step: GroupStep, suspended: Suspended) -> None:
    """Judge the incidents again whose parent was resolved, and make those independent that are still open.

    A parent that is clear, and waited for the last of those that it explains, is resolved with it.
    """
    state, is_due = step.state, "CLUSTER" in step.changes
    while step.resolved or is_due:
        over, step.resolved, is_due = step.resolved, set(), False
        for incident in [one for one in state.incidents.values() if one.incident_id in over and one.cleared_at]:
            _judge_one(step, incident, suspended)
        open_ids = {one.incident_id for one in (*state.incidents.values(), *step.cluster.incidents.values())}
        for incident in [
            one for one in state.incidents.values() if one.parent is not None and one.parent not in open_ids
        ]:
            _judge_one(step, incident, suspended, released_from=incident.parent)


def _judge_one(
    step: GroupStep, incident: IncidentState, suspended: Suspended, released_from: str | None = None
) -> None:
    """Judge an incident by its own rule; make it independent if it is still explained by one that is resolved."""
    if incident.queue is not None:
        _settle(step, QUEUE_RULES, QueueFacts.of(step.facts, incident.queue), incident, suspended, released_from)
    else:
        rules = BROKER_RULES if incident.subject in step.state.views else _OF_OTHERS
        _settle(step, rules, incident.subject, incident, suspended, released_from)


def _settle(
    step: GroupStep,
    rules: Iterable[Rule[GroupStep, Subject]],
    subject: Subject,
    incident: IncidentState,
    suspended: Suspended,
    released_from: str | None,
) -> None:
    for rule in rules:
        if rule.code == incident.code:
            apply(step, (rule,), subject, suspended)
            if (
                released_from
                and incident.parent == released_from
                and step.state.incidents.get(incident.key) is incident
            ):
                release(step, rule, subject, incident)


def _derive(step: GroupStep) -> None:
    """Derive what rules of several kinds need, from what has changed: queues that have ended, members' routes."""
    changes = step.changes.keys()
    if changes & ENDS_FOLLOW or step.state.left:
        ended_queues.note_subscriptions(step)
    if step.facts.routes is None:
        released_queues.end_unread_queues(step)
    if changes & ROUTE_VIEWS_FOLLOW or "" in step.state.unsettled:
        route_views.note(step)


def _rules_of(step: GroupStep, client_id: str) -> tuple[ClientRule, ...]:
    """Return the rules by which a client is judged."""
    return CLIENT_RULES if client_id in step.state.unsettled else client_rules(concerns.of_client(step, client_id))


def _judge_queue(step: GroupStep, q: QueueFacts, flags: int, suspended: Suspended) -> None:
    ended = q.queue.ended
    if ended is not None:
        end(step, QUEUE_RULES, q, ended_queues.WHY[ended.why])
    elif q.mq.topic in step.facts.popped:
        end(step, PULLED_QUEUE_RULES, q, POPPED)
        apply(step, POPPED_QUEUE_RULES, q, suspended)
    else:
        apply(step, _rules_of_queue(step.state, str(q), flags), q, suspended)


def _rules_of_queue(state: GroupState, subject: str, flags: int) -> Iterable[QueueRule]:
    """Return the rules by which a queue is judged: those about its flags, and those of its incidents."""
    rules, own, every = queue_rules(flags), state.unsettled.get(subject, 0), (state.incidents, state.pending)
    if not own or own == sum([(one.code, subject) in known for one in rules for known in every]):
        return rules
    return [one for one in QUEUE_RULES if one in rules or any((one.code, subject) in known for known in every)]


def judge_all(step: GroupStep) -> None:
    """Judge everything that the group has, as at a deadline."""
    state = step.state
    if state.lost is not None and state.lost.open_incidents:
        _resolve_former(step, state.lost)
    step.changed("TIME")
    step.brokers_to_judge |= dict.fromkeys(state.views)
    step.clients_to_judge |= dict.fromkeys(state.clients)
    for hook in step.facts.hooks.values():
        step.clients_to_judge |= dict.fromkeys((*hook.refused_heartbeats, *hook.seldom_heartbeats))
    step.clients_to_judge |= dict.fromkeys((*step.facts.pops.proxied, *step.facts.pops.proxies))
    step.queues_to_judge |= dict.fromkeys(state.queues)
    judge(step)


def end_broker(step: GroupStep, broker: str, why: str) -> None:
    """Forget a broker that the cluster no longer has; the incidents about it, and about its queues, are resolved."""
    end(step, BROKER_RULES, broker, why)
    ended_queues.note_broker_gone(step, broker)
    membership.forget_broker(step, broker)
    step.brokers_to_judge.pop(broker, None)


def end_all(step: GroupStep, why: str) -> None:
    """Resolve every incident of a group that has ended; what was pending is dropped."""
    state = step.state
    for mq in state.queues if state.unsettled else ():
        end(step, QUEUE_RULES, QueueFacts.of(step.facts, mq), why)
    for subject in tuple(state.unsettled):
        if subject in state.views:
            end(step, BROKER_RULES, subject, why)
        else:
            end(step, CLIENT_RULES, subject, why)
            end(step, REBALANCE_RULES, subject, why)
            end(step, GROUP_RULES, subject, why)


def _resolve_former(step: GroupStep, lost: LostState) -> None:
    """Resolve the incidents that were open when the group's state was lost: their subjects are not known any more."""
    for incident in lost.open_incidents.values():
        named = (one for one in RULES if one.code == incident.code and not isinstance(one, ClusterRule))
        subs = {cause.sub_cause for cause in incident.causes} | {incident.sub_cause}
        if (rule := next((one for one in named if subs <= one.advice.keys()), None)) is not None:
            resolve_unjudged(step, rule, incident, BEGAN_AGAIN)
    step.touched = {mq: None for mq in step.touched if mq in step.state.queues}
    step.state.lost = msgspec.structs.replace(lost, open_incidents={})


def _judge_open(step: GroupStep) -> None:
    """Judge open incidents again after members, owners or routes have changed: their subject may be gone."""
    step.queues_to_judge |= {one.queue: None for one in step.state.incidents.values() if one.queue is not None}
    for code, subject in (*step.state.incidents, *step.state.pending):
        if code in _OF_CLIENTS and subject not in step.state.views:  # CLOCK_SKEW has brokers as subjects, too
            step.clients_to_judge[subject] = None
