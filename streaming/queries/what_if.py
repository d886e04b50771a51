"""Predict the allocation of a group's queues under each strategy after clients join or leave."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import count, islice
from string import digits
from typing import NamedTuple

from msgspec.structs import replace

from rebalance_model.allocation import AllocateStrategy, AllocationError
from rebalance_model.allocation import strategy as strategy_named
from rebalance_model.entities import MessageQueue, in_java_order, queue_order
from rebalance_model.observe.group.configured_strategy import configured_strategy
from rebalance_model.observe.group.configured_strategy import owners as owners_by
from rebalance_model.observe.policy import NEARBY, NEED_NO_PARAMETERS, Policy
from streaming.base.errors import UserError
from streaming.base.language import gettext, marked, ngettext
from streaming.base.limits import WHAT_IF_CLIENTS
from streaming.base.nearest import did_you_mean, full_name, one_of
from streaming.base.terminal import command_line, group_argument
from streaming.base.times import written
from streaming.queries import labels, ownership
from streaming.queries.group_at import GroupAt
from streaming.queries.groups import LastGroupState, last_group_state
from streaming.queries.labels import strategy_name
from streaming.queries.ownership import refuse_broadcasting
from streaming.queries.plan import Departure, MoveCost, Plan, PlannedMove, Share, departures, move_cost
from streaming.queries.present import history_ends, policy_of, present
from streaming.queries.results import Queue
from streaming.tables.reader import ReadModel

STRATEGIES = (*NEED_NO_PARAMETERS, "CONFIG", "MACHINE_ROOM", NEARBY)
"""The strategies of RocketMQ."""

Known = AllocateStrategy | str
"""A strategy, or the sentence that says what it lacks."""


def own_name(policy: Policy, declared: str | None) -> str:
    """Return the name of a group's own strategy.

    Args:
        policy: the group's policy.
        declared: the Java class that its clients declare; None: they differ, or none has answered.
    """
    return _short(policy.allocate_strategy) or strategy_name(declared)


def strategies_of(policy: Policy, own: str, asked: str | None = None) -> Mapping[str, Known]:
    """Return the strategies to compare for a group, its own first.

    One whose parameters the policy does not state is left out, unless it is the group's own or is asked for.

    Raises:
        InvalidValueError: the strategy that is asked for is none of RocketMQ's.
    """
    if asked:
        asked = one_of("strategy", asked, STRATEGIES)
    known = {name: _known(policy, name) for name in STRATEGIES}
    shown = [name for name, one in known.items() if not isinstance(one, str) or name in {own, asked}]
    return {name: known[name] for name in sorted(shown, key=lambda name: name != own)}


def _short(name: str) -> str:
    """Return the name of a strategy without that of its inner one."""
    return NEARBY if name.startswith(NEARBY) else name


def _known(policy: Policy, name: str) -> Known:
    """Return a strategy with the parameters that the policy states for it."""
    full = name
    if name == NEARBY:
        full = policy.allocate_strategy if policy.allocate_strategy.startswith(NEARBY) else f"{NEARBY}-AVG"
    try:
        stated = replace(policy, allocate_strategy=full)
    except ValueError as error:  # a parameter is missing
        return gettext("{reason}: state it in the policy", reason=str(error).removeprefix("allocate_strategy "))
    chosen = configured_strategy(stated)
    assert chosen is not None
    return chosen


_DIGITS = 18
"""Digits at the end of a client's name that count on to the next name."""

Owners = Mapping[MessageQueue, str | None]


class Prediction(NamedTuple):
    """The owners that a group would have under each strategy."""

    own: str
    """The name of the group's own strategy."""
    joined: list[str]
    """The ids of the clients that join."""
    caveats: list[str]
    """The limits of the prediction, in sentences."""
    plans: list[Plan]
    """The plan of each strategy for each topic, the group's own strategy first."""
    left: Sequence[str]
    """The ids of the members that leave."""
    cost: MoveCost
    """The cost of moves of a queue of the group."""
    departures: Sequence[Departure] = ()
    """The time that the queues of those that leave wait for a new owner, by how they leave; none leaves: empty."""


def what_if(
    model: ReadModel,
    group_at: GroupAt,
    *,
    clients: Sequence[str] | None = None,
    leave: Sequence[str] = (),
    join: Sequence[str] = (),
    topic: str | None = None,
    strategy: str | None = None,
) -> Prediction:
    """Return the plan of each strategy for each topic.

    Args:
        model: the tables.
        group_at: the group whose members and queues are used.
        clients: client ids that replace the members.
        leave: ids of members that leave, or unique ends of ids.
        join: ids of clients that join, or numbers of new clients; the allocation depends on the order of the ids.
        topic: only this topic.
        strategy: a strategy to include even if the policy does not state what it needs.

    Raises:
        UserError: a leaving client is not a member, a joining one already is, no client or queue is left, or they are
            too many.
    """
    _refuse_crowd(sum(map(_number, join)) + len(clients or ()))
    group, at = group_at.group, group_at.at
    now = last_group_state(model, group_at)
    refuse_broadcasting(now.message_model, group_at)
    present_ones = now.members if clients is None else clients
    joined = coming(present_ones, join)
    left = [_member(group, client, present_ones) for client in leave]
    members = _members(group, present_ones, left, joined)
    queues = ownership.queues(model, group_at, topic)
    topics: dict[str, dict[MessageQueue, str | None]] = defaultdict(dict)
    for queue in queues:
        topics[queue.topic][MessageQueue(queue.topic, queue.broker, queue.queue_id)] = queue.owner
    if not topics:
        raise UserError(gettext("No queues of {group} are known yet: there is nothing to allocate.", group=group))
    policy = policy_of(model).of_group(group_at.cluster, group)
    own = own_name(policy, now.strategy)
    strategies, cost = strategies_of(policy, own, strategy), move_cost(model, group_at, present(model, at))
    warnings = (*silence(model, at), *warnings_of(now, queues, own, strategies))
    plans = [
        _plan(name, group, owners, members, known).model_copy(update={"warnings": warnings})
        for _, owners in sorted(topics.items()) for name, known in strategies.items()
    ]  # fmt: skip
    names_assumed = any(name.isdecimal() for name in join)
    caveats = [*([gettext(_ASSUMED)] if names_assumed else []), *warnings]
    ways = departures(model, group_at, policy, orderly=now.orderly, until=present(model, at)) if left else ()
    return Prediction(own, joined, caveats, [_with_cost(plan, cost) for plan in plans], left, cost, ways)


_ASSUMED = marked("The allocation depends on the order of client names; those of the new clients are assumed.")


def silence(model: ReadModel, at: int | None) -> Iterator[str]:
    """Yield a sentence if telemetry has stopped, so that what is known now is old."""
    heard = history_ends(model, at).at_instant
    if heard.is_silent:
        time = written(heard.last)
        yield gettext("No telemetry since {time}: members and owners are the last known ones.", time=time)


def warnings_of(
    now: LastGroupState, queues: Sequence[Queue], own: str, strategies: Mapping[str, Known]
) -> Iterator[str]:
    """Yield what is uncertain about a group, in sentences."""
    coverage = now.coverage
    if now.health == "UNKNOWN":
        reason = labels.reason(now.health_reason) or gettext("no telemetry")
        yield gettext("The state of the group is not well known: {reason}.", reason=reason)
    if own not in strategies:
        yield gettext("The group's own strategy is not simulated: {strategy}.", strategy=own)
    elif isinstance(lacks := strategies[own], str):
        yield gettext("The group's own strategy is not simulated: {strategy}.", strategy=lacks)
    if not coverage.polls:
        yield gettext("No collector polls the group: its queues and owners are known by broker hooks alone.")
    elif coverage.members_answering < coverage.members:
        silent = coverage.members - coverage.members_answering
        yield ngettext(
            "{n} of {members} members does not answer: what it owns is as last known.",
            "{n} of {members} members do not answer: what they own is as last known.",
            silent,
            n=f"{silent:,}",
            members=f"{coverage.members:,}",
        )
    if coverage.brokers_answering < coverage.brokers and coverage.polls:
        silent = coverage.brokers - coverage.brokers_answering
        yield ngettext(
            "{n} of {brokers} brokers does not answer.",
            "{n} of {brokers} brokers do not answer.",
            silent,
            n=f"{silent:,}",
            brokers=f"{coverage.brokers:,}",
        )
    if unassigned := sum(queue.owner is None for queue in queues):
        yield ngettext(
            "{n} queue has no owner now: giving it to a client counts as a move.",
            "{n} queues have no owner now: giving one to a client counts as a move.",
            unassigned,
            n=f"{unassigned:,}",
        )
    if elsewhere := sum(queue.is_elsewhere and queue.owner is not None for queue in queues):
        yield ngettext(
            "{n} queue has another owner than the strategy names: a move in any case.",
            "{n} queues have another owner than the strategy names: a move in any case.",
            elsewhere,
            n=f"{elsewhere:,}",
        )


def coming(members: Sequence[str], join: Sequence[str]) -> list[str]:
    """Return the ids of joining clients, given as ids or as a number of new clients.

    Raises:
        UserError: they are more than `limits.WHAT_IF_CLIENTS`.
    """
    _refuse_crowd(sum(_number(named) for named in join))
    clients: list[str] = []
    for named in join:
        clients += newcomers([*members, *clients], int(named)) if named.isdecimal() else [named]
    return clients


def _number(join: str) -> int:
    """Return how many clients join; of a number of many digits, that they are too many."""
    if not join.isdecimal():
        return 1
    return int(join) if len(join) < len(str(WHAT_IF_CLIENTS)) + 1 else WHAT_IF_CLIENTS + 1


def _refuse_crowd(clients: int) -> None:
    if clients > WHAT_IF_CLIENTS:
        most = f"{WHAT_IF_CLIENTS:,}"
        raise UserError(gettext("Too many clients are named or join: at most {most} are allowed.", most=most))


def newcomers(members: Sequence[str], number: int) -> list[str]:
    """Return names for new clients: the last member's name with higher numbers, so that they sort after it."""
    last = members[-1] if members else "client-0"
    number_at_end = len(last) - min(len(last) - len(last.rstrip(digits)), _DIGITS)
    stem = last[:number_at_end]
    names = (f"{stem}{n}" for n in count(int(last[number_at_end:] or 0) + 1))
    taken = set(members)
    return list(islice((name for name in names if name not in taken), number))


def _member(group: str, client: str, members: Sequence[str]) -> str:
    """Return the id of a member by its whole id or a unique end of it."""
    member = full_name(client, members, "member")
    if member is None:
        command = command_line("rebalance-watch", "group", "show", *group_argument(group))
        advice = did_you_mean(client, members) or gettext("{command} lists its members.", command=f"`{command}`")
        raise UserError(
            gettext("{client} is not a member of {group}: {advice}", client=client, group=group, advice=advice)
        )
    return member


def _members(group: str, members: Sequence[str], leave: Sequence[str], join: Sequence[str]) -> Sequence[str]:
    present_ones, leaving = set(members), set(leave)
    for client in join:
        if client in present_ones:
            raise UserError(
                gettext(
                    "{client} is already a member of {group}: use another name for the new client.",
                    client=client,
                    group=group,
                )
            )
    after = in_java_order([*(member for member in members if member not in leaving), *join])
    if not after:
        raise UserError(gettext("{group} would have no members left: there is nothing to allocate.", group=group))
    return after


def _plan(name: str, group: str, owners: Owners, members: Sequence[str], strategy: Known | None = None) -> Plan:
    queues = sorted(owners, key=queue_order)
    then: Owners = {}
    refused = strategy if isinstance(strategy, str) else None
    if not isinstance(strategy, str):
        try:
            then = owners_by(strategy or strategy_named(name), group, queues, members)
        except AllocationError as error:
            refused = str(error)
    before, after = Counter(owners.values()), Counter(then.values())
    moves = () if refused else tuple(
        PlannedMove(queue=str(mq), from_client=owners[mq], to_client=then.get(mq))
        for mq in queues if then.get(mq) != owners[mq]
    )  # fmt: skip
    return Plan(
        strategy=name,
        topic=queues[0].topic,
        queues=len(queues),
        queues_moved=len(moves),
        queues_moved_min=sum(max(0, after[client] - before[client]) for client in after),
        queues_unassigned=0 if refused else after[None],
        shares=() if refused else _shares(members, owners, then),
        refused=refused,
        moves=moves,
    )


def _with_cost(plan: Plan, cost: MoveCost) -> Plan:
    if plan.refused is not None:
        return plan
    handed_over = sum(move.from_client is not None and move.to_client is not None for move in plan.moves)
    known = {"pause_ms": cost.pause_ms, "pause_is_at_most": cost.pause_is_at_most, "measured_moves": cost.moves}
    return plan.model_copy(update={**known, "duplicates": cost.duplicates(handed_over)})


def _clients(owners: Owners, members: Sequence[str]) -> Sequence[str]:
    """Return the clients that own queues now or would be members, in Java's order."""
    return in_java_order(sorted({owner for owner in owners.values() if owner is not None} | set(members)))


def _shares(members: Sequence[str], owners: Owners, then: Owners) -> tuple[Share, ...]:
    has, gets, present_ones = _by_owner(owners), _by_owner(then), set(members)
    return tuple(
        _share(client, has[client], gets[client], is_member=client in present_ones)
        for client in _clients(owners, members)
    )


def _by_owner(owners: Owners) -> defaultdict[str | None, set[MessageQueue]]:
    queues: defaultdict[str | None, set[MessageQueue]] = defaultdict(set)
    for mq, owner in owners.items():
        queues[owner].add(mq)
    return queues


def _share(client: str, has: Set[MessageQueue], gets: Set[MessageQueue], *, is_member: bool) -> Share:
    return Share(
        client_id=client,
        now=len(has),
        then=len(gets),
        gains=tuple(map(str, sorted(gets - has, key=queue_order))),
        loses=tuple(map(str, sorted(has - gets, key=queue_order))),
        is_member=is_member,
    )
