"""What would become of a group's queues, were clients to go or come, under each strategy."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from rebalance_model.allocation import AllocationError, strategy, strategy_of_class
from rebalance_model.entities import RETRY_TOPIC_PREFIX, MessageQueue, in_java_order
from streaming.errors import UserError
from streaming.queries.answers import Plan, Share
from streaming.queries.groups import group_of
from streaming.queries.ownership import queues_of
from streaming.queries.subject import subject
from streaming.read_model.reader import ReadModel

STRATEGIES = ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH")
"""Those that need no parameters: what CONFIG and MACHINE_ROOM would do, the clients' own configuration says."""

Owners = Mapping[MessageQueue, str | None]


def what_if(  # noqa: PLR0913  what may change
    model: ReadModel,
    group: str,
    *,
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
        leave: client ids that go.
        join: client ids that come; their names matter, because clients are sorted by them.
        topic: only this one.
        cluster: where the group is, if its name is not enough.
        at: an instant, instead of now.

    Raises:
        UserError: see `subject`; or who leaves is no member, who joins is one, or nobody or no queue is left.
    """
    of = subject(model, group, cluster, at)
    now = group_of(model, of)
    if now.message_model == "BROADCASTING":
        raise UserError(f"{group} is broadcasting: each of its clients reads every queue, there is nothing to divide.")
    members = _members(group, now.members, leave, join)
    topics: dict[str, dict[MessageQueue, str | None]] = defaultdict(dict)
    for queue in queues_of(model, of, topic):
        if not queue.topic.startswith(RETRY_TOPIC_PREFIX):
            topics[queue.topic][MessageQueue(queue.topic, queue.broker, queue.queue_id)] = queue.owner
    if not topics:
        raise UserError(f"No queue of {topic or group} is known: give a topic that the group subscribes.")
    own = strategy_of_class(now.strategy or "")
    names = sorted(STRATEGIES, key=lambda name: own is None or name != own.name)
    return [_plan(name, group, owners, members) for _, owners in sorted(topics.items()) for name in names]


def _members(group: str, members: Sequence[str], leave: Sequence[str], join: Sequence[str]) -> Sequence[str]:
    for client in leave:
        if client not in members:
            raise UserError(f"{client} is no member of {group}; it has: {', '.join(members) or 'none'}.")
    for client in join:
        if client in members:
            raise UserError(f"{client} is a member of {group} already: give the client that comes another name.")
    after = in_java_order([*(member for member in members if member not in leave), *join])
    if not after:
        raise UserError(f"Nobody would be left in {group}: its queues would wait for the next client.")
    return after


def _plan(name: str, group: str, owners: Owners, members: Sequence[str]) -> Plan:
    queues = sorted(owners, key=_place)
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


def _place(mq: MessageQueue) -> tuple[str, str, int]:
    return mq.topic, mq.broker, mq.queue_id


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
        gains=tuple(map(str, sorted(gets - has, key=_place))),
        loses=tuple(map(str, sorted(has - gets, key=_place))),
    )
