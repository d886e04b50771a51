"""Predict the allocation of a group's queues under each strategy after clients join or leave."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import count, islice
from string import digits
from typing import NamedTuple

from rebalance_model.allocation import AllocationError, strategy
from rebalance_model.entities import MessageQueue, in_java_order, queue_order
from streaming.base.errors import UserError
from streaming.base.limits import WHAT_IF_CLIENTS
from streaming.base.nearest import did_you_mean
from streaming.queries.group_at import find_group
from streaming.queries.groups import last_group_state
from streaming.queries.labels import strategy_name
from streaming.queries.ownership import queues_of, refuse_broadcasting
from streaming.queries.plan import Plan, Share
from streaming.tables.reader import ReadModel

STRATEGIES = ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH")
"""The strategies without parameters; CONFIG and MACHINE_ROOM depend on the configuration of the clients."""

_DIGITS = 18
"""Of a longer number at the end of a client's name, only so many are counted on."""

Owners = Mapping[MessageQueue, str | None]


class Prediction(NamedTuple):
    """What a group's owners would be under each strategy."""

    own: str
    """The name of the group's own strategy."""
    joined: list[str]
    """The ids of the clients that join."""
    caveats: list[str]
    """What limits the prediction, in sentences."""
    plans: list[Plan]
    """The plan of each strategy for each topic, the group's own strategy first."""


def what_if(  # noqa: PLR0913  what may change
    model: ReadModel,
    group: str,
    *,
    clients: Sequence[str] | None = None,
    leave: Sequence[str] = (),
    join: Sequence[str] = (),
    topic: str | None = None,
    cluster: str | None = None,
    at: int | None = None,
) -> Prediction:
    """Return the plan of each strategy for each topic.

    Args:
        model: the tables.
        group: the group whose members and queues are used.
        clients: client ids that replace the members.
        leave: ids of members that leave.
        join: ids of clients that join, or numbers of new clients; the allocation depends on the order of the ids.
        topic: only this topic.
        cluster: the cluster of the group, if its name is ambiguous.
        at: epoch milliseconds; None is now.

    Raises:
        UserError: a leaving client is not a member, a joining one already is, no client or queue is left, or they are
            too many; or see `find_group`.
    """
    _refuse_crowd(sum(map(_number, join)) + len(clients or ()))
    of = find_group(model, group, cluster, at)
    now = last_group_state(model, of)
    refuse_broadcasting(now.message_model, of)
    present = now.members if clients is None else clients
    joined = coming(present, join)
    members = _members(group, present, leave, joined)
    topics: dict[str, dict[MessageQueue, str | None]] = defaultdict(dict)
    for queue in queues_of(model, of, topic):
        topics[queue.topic][MessageQueue(queue.topic, queue.broker, queue.queue_id)] = queue.owner
    if not topics:
        raise UserError(f"No queues of {group} are known yet: there is nothing to allocate.")
    own = strategy_name(now.strategy)
    names = sorted(STRATEGIES, key=lambda name: name != own)
    plans = [_plan(name, group, owners, members) for _, owners in sorted(topics.items()) for name in names]
    return Prediction(own, joined, list(_caveats(own, names_assumed=any(one.isdecimal() for one in join))), plans)


def coming(members: Sequence[str], join: Sequence[str]) -> list[str]:
    """Return the ids of joining clients, given as ids or as a number of new clients.

    Raises:
        UserError: they are more than `limits.WHAT_IF_CLIENTS`.
    """
    _refuse_crowd(sum(_number(one) for one in join))
    found: list[str] = []
    for one in join:
        found += newcomers([*members, *found], int(one)) if one.isdecimal() else [one]
    return found


def _caveats(own: str, *, names_assumed: bool) -> Iterator[str]:
    if names_assumed:
        yield "The allocation depends on the order of client names; those of the new clients are assumed."
    if own not in STRATEGIES:
        yield f"The group's own strategy is not simulated: {own}."


def _number(join: str) -> int:
    """Return how many clients join; of a number of many digits, that they are too many."""
    if not join.isdecimal():
        return 1
    return int(join) if len(join) < len(str(WHAT_IF_CLIENTS)) + 1 else WHAT_IF_CLIENTS + 1


def _refuse_crowd(clients: int) -> None:
    if clients > WHAT_IF_CLIENTS:
        raise UserError(f"Too many clients are named or join: at most {WHAT_IF_CLIENTS:,} are allowed.")


def newcomers(members: Sequence[str], number: int) -> list[str]:
    """Return names for new clients: that of the last member with a higher number, so that they sort as its peers do."""
    last = members[-1] if members else "client-0"
    number_at_end = len(last) - min(len(last) - len(last.rstrip(digits)), _DIGITS)
    stem = last[:number_at_end]
    names = (f"{stem}{n}" for n in count(int(last[number_at_end:] or 0) + 1))
    taken = set(members)
    return list(islice((name for name in names if name not in taken), number))


def _members(group: str, members: Sequence[str], leave: Sequence[str], join: Sequence[str]) -> Sequence[str]:
    present, leaving = set(members), set(leave)
    for client in leave:
        if client not in present:
            advice = did_you_mean(client, members) or f"`rebalance-watch group show {group}` lists its members."
            raise UserError(f"{client} is not a member of {group}: {advice}")
    for client in join:
        if client in present:
            raise UserError(f"{client} is already a member of {group}: use another name for the new client.")
    after = in_java_order([*(member for member in members if member not in leaving), *join])
    if not after:
        raise UserError(f"{group} would have no members left: there is nothing to allocate.")
    return after


def _plan(name: str, group: str, owners: Owners, members: Sequence[str]) -> Plan:
    queues = sorted(owners, key=queue_order)
    try:
        planned = strategy(name).plan(group, queues, members)
        refused = None
    except AllocationError as error:
        planned, refused = {}, str(error)
    then = {mq: client for client, share in planned.items() for mq in share or ()}
    before, after = Counter(owners.values()), Counter(then.values())
    return Plan(
        strategy=name,
        topic=queues[0].topic,
        queues=len(queues),
        queues_moved=0 if refused else sum(then.get(mq) != owner for mq, owner in owners.items()),
        queues_moved_min=sum(max(0, after[client] - before[client]) for client in after),
        shares=() if refused else _shares(_clients(owners, members), owners, then),
        refused=refused,
    )


def _clients(owners: Owners, members: Sequence[str]) -> Sequence[str]:
    """Return the clients that own queues now or would be members, in Java's order."""
    return in_java_order(sorted({owner for owner in owners.values() if owner is not None} | set(members)))


def _shares(clients: Sequence[str], owners: Owners, then: Owners) -> tuple[Share, ...]:
    has, gets = _by_owner(owners), _by_owner(then)
    return tuple(_share(client, has[client], gets[client]) for client in clients)


def _by_owner(owners: Owners) -> defaultdict[str | None, set[MessageQueue]]:
    found: defaultdict[str | None, set[MessageQueue]] = defaultdict(set)
    for mq, owner in owners.items():
        found[owner].add(mq)
    return found


def _share(client: str, has: Set[MessageQueue], gets: Set[MessageQueue]) -> Share:
    return Share(
        client_id=client,
        now=len(has),
        then=len(gets),
        gains=tuple(map(str, sorted(gets - has, key=queue_order))),
        loses=tuple(map(str, sorted(has - gets, key=queue_order))),
    )
