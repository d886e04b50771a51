"""ROUTE_VIEW_SPLIT: the clients of a group, or the collector, have different routes of a topic.

No event shows a client's route. But a member that has exactly the share of another route, and not that of the present
one, has that other route. Clients query the name server every 30 s, so after a change of the topic's queues some may
use the former route: that is an info.

NAME_SERVERS: a member has the share of a route without a broker (`group.route_views`), for longer than clients need to
see a change. No answer of two name servers shows it: that they disagree is inferred. Some queues then have two readers
and others none; their incidents are children of this one, and those that are due before it wait for it.

NOT_TAKEN_UP: no member has taken up the queues of a broker that has restarted, or answers again. Name servers need
not disagree: all members have the same route.

COLLECTOR_ROUTE: the collector's own name server is such a one (`Route.beyond`). The members may all be right, and no
owner of the topic's queues is expected.
"""

from rebalance_model.allocation import AllocateStrategy, AllocationError
from rebalance_model.broker.consumer_group_info import ConsumerGroupInfo
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.group.expectation import strategy_of
from rebalance_model.observe.group.route_views import members_changed_at
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, GroupRule, Holds, Verdict
from rebalance_model.observe.state import GroupState, IncidentKey, Route, RouteSplit
from rebalance_model.observe.step import GroupStep

CODE, NAME_SERVERS, COLLECTOR_ROUTE = "ROUTE_VIEW_SPLIT", "NAME_SERVERS", "COLLECTOR_ROUTE"
NOT_TAKEN_UP = "NOT_TAKEN_UP"
_OF_SPLITS = (NAME_SERVERS, NOT_TAKEN_UP)
NAMES_MAX = 10
"""At most this many members are named."""


def judge(step: GroupStep, _: str) -> Verdict:
    """Compare the members' queues with their shares of other routes."""
    splits = step.route_splits
    certain = [split for split in splits or () if _is_certain(step, split)]
    if certain:
        behind = {member for split in certain for member in split.behind}
        duration_ms = 0 if _awaits_answers(step) else None
        sub_cause = NOT_TAKEN_UP if _back_at(step, certain) else NAME_SERVERS
        return Holds("critical", sub_cause, behind.pop() if len(behind) == 1 else None, duration_ms=duration_ms)
    if step.facts.routes is None:
        return None if splits is None or step.state.routes else CLEAR
    former = _of_former(step)
    if isinstance(former, Holds):
        return former
    if any(route.beyond for route in step.state.routes.values()):
        return Holds("warning", COLLECTOR_ROUTE)
    return None if splits is None else former


def _back_at(step: GroupStep, splits: list[RouteSplit]) -> int:
    """Return when the broker came back that the route of every member lacks; 0: there is no such broker."""
    lacks = {broker for split in splits for brokers in split.lacks for broker in brokers}
    everyone = all(len(split.lacks) == 1 and set(split.behind) >= step.facts.members for split in splits)
    back = [view.back_at for broker, view in step.state.views.items() if broker in lacks]
    return max(back) if everyone and len(back) == len(lacks) and all(back) else 0


def evidence(step: GroupStep, _: str) -> Evidence:
    """Return the topic, who has another route of it, and how they differ."""
    certain = [split for split in step.state.route_splits if _is_certain(step, split)]
    if certain:
        return _of_split(step, certain[0])
    for topic, route in step.state.routes.items():
        if route.former and (behind := _behind(step, route)):
            return {
                "topic": topic,
                "queues": len(route.queues),
                "former_queues": len(route.former),
                "behind": len(behind),
                "who": ", ".join(behind[:NAMES_MAX]),
                "changed_ms": step.now - route.changed_at,
            }
    for topic, route in step.state.routes.items():
        if route.beyond:
            return {
                "topic": topic,
                "queues": len(route.queues),
                "collector_lacks": _brokers(route.beyond),
                "queues_missing": len(route.beyond),
            }
    return {"behind": 0}


def explains(step: GroupStep, *queues: MessageQueue) -> tuple[IncidentKey, ...]:
    """Return the rule's open incident (`Holds.explained_by`) if name servers that disagree affect all these queues."""
    return (IncidentKey(CODE),) if _affect(_open_splits(step), queues) else ()


def may_explain(step: GroupStep, *queues: MessageQueue) -> bool:
    """Return whether that will be known soon: name servers seem to disagree, and the rule waits for `open_after`."""
    if IncidentKey(CODE) not in step.state.pending:
        return False
    return _affect(tuple(split for split in step.state.route_splits if _is_certain(step, split)), queues)


def lacks_broker(step: GroupStep, client_id: str, broker: str) -> bool:
    """Return whether an open incident of this rule says that the client's route lacks the broker."""
    return any(client_id in split.behind and broker in split.lacks[0] for split in _open_splits(step))


def _affect(splits: tuple[RouteSplit, ...], queues: tuple[MessageQueue, ...]) -> bool:
    return bool(splits) and all(any(mq in split.affected for split in splits) for mq in queues)


def _open_splits(step: GroupStep) -> tuple[RouteSplit, ...]:
    incident = step.state.incidents.get(IncidentKey(CODE))
    return step.state.route_splits if incident is not None and incident.sub_cause in _OF_SPLITS else ()


def _is_certain(step: GroupStep, split: RouteSplit) -> bool:
    """Return whether it is no change of the route that clients have yet to see, and lasts.

    A new incident waits for `open_after` in addition; one that is open already for another reason does not.
    """
    route, incident = step.state.routes.get(split.topic), step.state.incidents.get(IncidentKey(CODE))
    settled_after = step.policy.assignment_settled_after
    seen_at = route.changed_at + settled_after if route is not None else 0
    if incident is None or incident.sub_cause in _OF_SPLITS:
        return step.now > seen_at
    return step.now - max(seen_at, split.since) > settled_after


def _awaits_answers(step: GroupStep) -> bool:
    """Return whether a new incident would open before the round of answers that is due then: it may be over."""
    pending, known_at = step.state.pending.get(IncidentKey(CODE)), step.state.rounds.known_at
    if pending is None or not known_at:
        return False
    return known_at < pending.since + step.policy.assignment_settled_after - step.policy.poll_interval // 2


def _of_split(step: GroupStep, split: RouteSplit) -> Evidence:
    state, route = step.state, step.state.routes.get(split.topic)
    affected = [queue for mq in split.affected if (queue := state.queues.get(mq)) is not None]
    without = [mq for mq in split.affected if mq in state.queues and state.queues[mq].owner is None]
    known = {mq.broker for mq in route.queues} if route is not None else set()
    all_lacks = sorted({broker for lacks in split.lacks for broker in lacks})
    own = sorted({mq.broker for mq in split.affected} - known) if route is not None else []
    fields: Evidence = {
        "topic": split.topic,
        "behind": len(split.behind),
        "who": ", ".join(split.behind[:NAMES_MAX]),
        "route_lacks" if len(split.lacks) == 1 else "route_lacks_one_of": ", ".join(all_lacks),
        "queues_affected": len(affected),
        "queues_without_owner": len(without),
    }
    if back_at := _back_at(step, [split]):
        fields["broker_back_at"] = back_at
    return fields | ({"collector_lacks": ", ".join(own)} if own else {})


def _brokers(queues: tuple[MessageQueue, ...]) -> str:
    return ", ".join(dict.fromkeys(mq.broker for mq in queues))


def _of_former(step: GroupStep) -> Verdict:
    """Compare the members' queues with their shares, for each topic whose route has changed."""
    state = step.state
    verdict: Verdict = CLEAR
    for route in state.routes.values():
        due = route.changed_at + step.policy.assignment_settled_after
        if not route.former:
            continue
        if state.rounds.known_at <= due:
            verdict = None
        elif _behind(step, route):
            since = max(route.changed_at, members_changed_at(state))  # shares that change fit any route for a moment
            return Holds("info", duration_ms=step.now - since)
    return verdict


def _behind(step: GroupStep, route: Route) -> list[str]:
    """Return the members with the former route's share; empty unless another one has the present route's share."""
    state = step.state
    info, chosen = step.facts.info, strategy_of(state, step.policy)
    if info is None or chosen is None or not step.facts.is_divided or not info.client_ids():
        return []
    has: dict[str, set[MessageQueue]] = {}
    for mq in dict.fromkeys((*route.queues, *route.former)):
        if (queue := state.queues.get(mq)) is not None and queue.owner is not None:
            has.setdefault(queue.owner, set()).add(mq)
    then, now = (_shares(state, info, chosen, queues) for queues in (route.former, route.queues))
    ahead = [c for c in state.members if has.get(c, set()) == now.get(c) != then.get(c)]
    behind = [c for c in state.members if has.get(c, set()) == then.get(c) != now.get(c)]
    return behind if ahead else []


def _shares(
    state: GroupState, info: ConsumerGroupInfo, chosen: AllocateStrategy, queues: tuple[MessageQueue, ...]
) -> dict[str, set[MessageQueue]]:
    try:
        plan = chosen.plan(state.group, queues, info.client_ids()) if queues else {}
    except AllocationError:  # thrown in each client, too, which then keeps its queues
        return {}
    return {cid: set(share or ()) for cid, share in plan.items()}


RULE = GroupRule(
    CODE,
    judge,
    evidence,
    follows=("MEMBERS", "CHANNELS", "DECLARED", "SUBSCRIPTIONS", "OWNERS", "ROUND", "ROUTES"),
    title="The route of a topic of {group} is not the same everywhere",
    units={
        "topic": "text",
        "queues": "count",
        "former_queues": "count",
        "behind": "count",
        "who": "text",
        "changed_ms": "ms",
        "route_lacks": "text",
        "route_lacks_one_of": "text",
        "queues_affected": "count",
        "queues_without_owner": "count",
        "collector_lacks": "text",
        "queues_missing": "count",
        "broker_back_at": "epoch_ms",
    },
    sub_causes=("", NAME_SERVERS, NOT_TAKEN_UP, COLLECTOR_ROUTE),
    needs=("OWNERS",),
    open_after=lambda policy: policy.assignment_settled_after,
    advice={
        "": Advice(
            what="The topic's queues have changed, and some members still divide the former ones.",
            first_step="Check that the named members reach the name server, which they query every 30 s.",
            inspect=("COMPARE",),
        ),
        NAME_SERVERS: Advice(
            short="members have different routes",
            what=(
                "The named members divide a route without the named broker: their name servers seem to lack it. Some "
                "queues are consumed twice, and others by nobody."
            ),
            first_step=(
                "Compare `mqadmin topicRoute -n NAME_SERVER -t TOPIC` of each name server; repair the one that "
                "lacks the broker (restart it, or that broker's registration with it)."
            ),
            inspect=("ROUTES", "COMPARE"),
        ),
        NOT_TAKEN_UP: Advice(
            short="no member has taken up a broker that is back",
            what=(
                "All members divide a route without the named broker, and have done so since it came back: nobody "
                "reads its queues."
            ),
            first_step=(
                "Restart the members. If that does not help, compare `mqadmin topicRoute -n NAME_SERVER -t TOPIC` of "
                "each of their name servers."
            ),
            inspect=("COMPARE", "ROUTES"),
        ),
        COLLECTOR_ROUTE: Advice(
            short="the collector's name server lacks a broker",
            what=(
                "The collector's name server lacks a broker whose queues members have: the collector's route of the "
                "topic is incomplete, and no owner of the topic's queues is expected."
            ),
            first_step=(
                "Compare `mqadmin topicRoute -n NAME_SERVER -t TOPIC` of each of the collector's name servers; "
                "repair the one that lacks the broker before clients use it."
            ),
            inspect=("ROUTES", "COMPARE"),
        ),
    },
)
