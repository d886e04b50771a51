"""What would become of a group's queues, were clients to go or come, under each strategy."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import count, islice
from string import digits

from rebalance_model.allocation import AllocationError, strategy, strategy_of_class
from rebalance_model.entities import MessageQueue, in_java_order, queue_order
from streaming.errors import UserError
from streaming.queries.answers import Plan, Share
from streaming.queries.groups import last_told
from streaming.queries.ownership import queues_of, refuse_broadcasting
from streaming.queries.subject import subject
from streaming.read_model.reader import ReadModel

STRATEGIES = ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH")
"""Those that need no parameters: what CONFIG and MACHINE_ROOM would do, the clients' own configuration says."""

Owners = Mapping[MessageQueue, str | None]


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
) -> list[Plan]:
    """The plan of each strategy for each topic, the group's own strategy first.

    Args:
        model: the tables.
        group: the group whose members and queues are taken.
        clients: client ids, instead of the group's members.
        leave: client ids of them that go.
        join: client ids that come; their names matter, because clients are sorted by them.
        topic: only this one.
        cluster: where the group is, if its name is not enough.
        at: an instant, instead of now.

    Raises:
        UserError: see `subject`; or who leaves is no member, who joins is one, or nobody or no queue is left.
    """
    of = subject(model, group, cluster, at)
    now = last_told(model, of)
    refuse_broadcasting(now.message_model, of)
    members = _members(group, now.members if clients is None else clients, leave, join)
    topics: dict[str, dict[MessageQueue, str | None]] = defaultdict(dict)
    for queue in queues_of(model, of, topic):
        topics[queue.topic][MessageQueue(queue.topic, queue.broker, queue.queue_id)] = queue.owner
    if not topics:
        raise UserError(f"No queue of {group} is known yet: there is nothing to divide.")
    own = strategy_of_class(now.strategy or "")
    names = sorted(STRATEGIES, key=lambda name: own is None or name != own.name)
    return [_plan(name, group, owners, members) for _, owners in sorted(topics.items()) for name in names]


def coming(members: Sequence[str], join: Sequence[str]) -> list[str]:
    """Clients that come to these, each said by its name, or several by their number."""
    found: list[str] = []
    for one in join:
        found += newcomers([*members, *found], int(one)) if one.isdecimal() else [one]
    return found


def newcomers(members: Sequence[str], number: int) -> list[str]:
    """Names for clients that come: the last member's, counted on, so that they sort as one more of its kind would."""
    last = members[-1] if members else "client-0"
    stem = last.rstrip(digits)
    names = (f"{stem}{n}" for n in count(int(last[len(stem) :] or 0) + 1))
    return list(islice((name for name in names if name not in members), number))


def _members(group: str, members: Sequence[str], leave: Sequence[str], join: Sequence[str]) -> Sequence[str]:
    for client in leave:
        if client not in members:
            near = get_close_matches(client, members, n=1)
            advice = f"did you mean {near[0]}?" if near else f"`rebalance-watch group show {group}` names its members."
            raise UserError(f"{client} is no member of {group}: {advice}")
    for client in join:
        if client in members:
            raise UserError(f"{client} is a member of {group} already: give the client that comes another name.")
    after = in_java_order([*(member for member in members if member not in leave), *join])
    if not after:
        raise UserError(f"Nobody would be left in {group}: its queues would wait for the next client.")
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
        shares=() if refused else tuple(_share(client, owners, then) for client in _clients(owners, members)),
        refused=refused,
    )


def _clients(owners: Owners, members: Sequence[str]) -> Sequence[str]:
    """Those who have queues now, or would be members."""
    return in_java_order(sorted({owner for owner in owners.values() if owner is not None} | set(members)))


def _share(client: str, owners: Owners, then: Owners) -> Share:
    has = {mq for mq, owner in owners.items() if owner == client}
    gets = {mq for mq, owner in then.items() if owner == client}
    return Share(
        client_id=client,
        now=len(has),
        then=len(gets),
        gains=tuple(map(str, sorted(gets - has, key=queue_order))),
        loses=tuple(map(str, sorted(has - gets, key=queue_order))),
    )
