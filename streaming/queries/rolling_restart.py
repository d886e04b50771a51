"""Plan a rolling restart: in which order members restart, and which queues move at each step.

Where a member stops, the others divide its queues, and, by most strategies, shift further ones among them. The order in
which all members restart changes nothing as long as each one is back before the next one stops. It does if the next one
stops as the former one starts, so that one rebalance sees both: by the strategies that divide by place, only the shares
of the two change if they are neighbours in the order of ids.
"""

from collections.abc import Sequence
from itertools import pairwise

from pydantic import Field

from rebalance_model.allocation import AllocateStrategy, AllocationError
from rebalance_model.allocation.strategies import MachineRoomNearby
from rebalance_model.entities import MessageQueue, in_java_order, java_order, queue_order
from rebalance_model.observe.group.configured_strategy import owners
from streaming.base.errors import UserError
from streaming.base.language import gettext
from streaming.queries import labels, ownership
from streaming.queries.group_at import GroupAt
from streaming.queries.groups import last_group_state
from streaming.queries.ownership import refuse_broadcasting
from streaming.queries.plan import MoveCost, move_cost
from streaming.queries.present import policy_of, present
from streaming.queries.results import QueryResult
from streaming.queries.what_if import own_name, silence, strategies_of, warnings_of
from streaming.tables.reader import ReadModel

_WORK = 2_500_000
"""The largest number of members times queues that is planned: 512 members of 4,096 queues, some seconds."""

_Owners = Sequence[str | None]


class RestartStep(QueryResult):
    """The restart of one member."""

    client_id: str = Field(title="Client")
    queues: int = Field(description="Number of queues that it has by the strategy.")
    moved: int = Field(
        title="Moved alone",
        description="Queues that get another owner when it stops while all others run, and again when it is back.",
    )
    moved_overlapped: int = Field(
        title="Moved overlapped", description="Queues that get another owner when it stops as the member before starts."
    )


class RollingRestart(QueryResult):
    """The restart of all members of a group, one after the other."""

    strategy: str
    queues: int
    steps: tuple[RestartStep, ...] = Field(description="In the order to restart them.")
    moved: int = Field(
        description="Moves of queues if each member is back before the next one stops; the order doesn't matter."
    )
    moved_overlapped: int = Field(
        description="Moves of queues if each member stops as the one before it starts, in this order."
    )
    pause_ms: int | None = Field(description="Expected pause of each move: the median of measured ones.")
    pause_is_at_most: bool = Field(description="True if that is an upper bound.")
    duplicates: int | None = Field(description="Expected messages that are consumed twice, if overlapped.")
    measured_moves: int = Field(description="Number of the group's moves that the expectation is from.")
    warnings: tuple[str, ...] = Field(description="The uncertainties about the group, in sentences.")

    @property
    def sentences(self) -> list[str]:
        """Return what the step moves, in sentences."""
        each = labels.pause(self.pause_ms, at_most=self.pause_is_at_most)
        cost = gettext(
            "Each move pauses its queue for {pause}, the median of {moves} measured ones; duplicates if overlapped: "
            "{duplicates}.",
            moves=f"{self.measured_moves:,}",
            pause=each,
            duplicates=labels.number(self.duplicates),
        )
        return [
            gettext(
                "{n} moves of queues if each member is back before the next one stops, in any order: those below, and "
                "as many when it is back.",
                n=f"{self.moved:,}",
            ),
            gettext(
                "{n} moves if each one stops as the one before it starts, in this order: those below, and {last} when "
                "the last one is back.",
                n=f"{self.moved_overlapped:,}",
                last=f"{self.moved_overlapped - sum(step.moved_overlapped for step in self.steps):,}",
            ),
            cost if self.measured_moves else labels.measured_moves(0, 0),
            gettext("Ids that change with a restart are assumed to sort where the former ones did."),
        ]


def rolling_restart(model: ReadModel, group_at: GroupAt) -> RollingRestart:
    """Return the order of restarting all members that moves least, and what moves.

    The ids of members are assumed to stay, or to sort where the former ones did.

    Raises:
        UserError: the group's strategy is not simulated or refuses, there are no members or queues, or there are too
            many.
    """
    group, at = group_at.group, group_at.at
    now = last_group_state(model, group_at)
    refuse_broadcasting(now.message_model, group_at)
    policy = policy_of(model).of_group(group_at.cluster, group)
    own = own_name(policy, now.strategy)
    strategies = strategies_of(policy, own)
    chosen = strategies.get(own)
    if chosen is None or isinstance(chosen, str):
        raise UserError(
            gettext(
                "The strategy of {group} is not simulated ({strategy}): there is no plan for a restart.",
                group=group,
                strategy=f"{own}: {chosen}" if chosen else own,
            )
        )
    queues, members = ownership.queues(model, group_at), in_java_order(now.members)
    if not queues or not members:
        raise UserError(
            gettext("{group} has no queues: there is nothing to restart.", group=group)
            if members
            else gettext("{group} has no members: there is nothing to restart.", group=group)
        )
    if len(queues) * len(members) > _WORK:
        raise UserError(
            gettext(
                "{group} is too large to plan a restart: {members} members of {queues} queues.",
                group=group,
                members=f"{len(members):,}",
                queues=f"{len(queues):,}",
            )
        )
    names = [MessageQueue(queue.topic, queue.broker, queue.queue_id) for queue in queues]
    try:
        planned = planned_restart(chosen, group, names, members)
    except AllocationError as error:
        raise UserError(
            gettext("The strategy of {group} refuses to allocate: {error}.", group=group, error=error)
        ) from None
    cost = move_cost(model, group_at, present(model, at))
    return planned.model_copy(update=_costs(planned, cost) | {
        "warnings": (*silence(model, at), *warnings_of(now, queues, own, strategies)),
    })  # fmt: skip


def planned_restart(
    chosen: AllocateStrategy, group: str, queues: Sequence[MessageQueue], members: Sequence[str]
) -> RollingRestart:
    """Return the plan by a strategy, without costs.

    Raises:
        AllocationError: the strategy refuses.
    """
    topics = [
        [mq for mq in sorted(queues, key=queue_order) if mq.topic == topic] for topic in {q.topic for q in queues}
    ]

    def division(clients: Sequence[str]) -> _Owners:
        if not clients:
            return [None] * len(queues)
        return [client for topic in topics for client in owners(chosen, group, topic, clients).values()]

    order = _order(chosen, members)
    everyone = division(members)
    without = [division([one for one in members if one != client]) for client in order]
    alone = [_differing(everyone, one) for one in without]
    overlapped = [alone[0], *(_differing(*pair) for pair in pairwise(without))]
    own = {client: sum(owner == client for owner in everyone) for client in order}
    steps = tuple(
        RestartStep(client_id=client, queues=own[client], moved=alone[n], moved_overlapped=overlapped[n])
        for n, client in enumerate(order)
    )
    return RollingRestart(
        strategy=chosen.name, queues=len(queues), steps=steps, moved=2 * sum(alone),
        moved_overlapped=sum(overlapped) + alone[-1], pause_ms=None, pause_is_at_most=False, duplicates=None,
        measured_moves=0, warnings=(),
    )  # fmt: skip


def _order(chosen: AllocateStrategy, members: Sequence[str]) -> Sequence[str]:
    """Return the members in the order of ids, room by room if rooms are divided separately."""
    if not isinstance(chosen, MachineRoomNearby):
        return members
    room_of = chosen.resolver.consumer_deploy_in
    return sorted(members, key=lambda client: (room_of(client) or "", java_order(client)))


def _differing(before: _Owners, after: _Owners) -> int:
    return sum(map(str.__ne__, map(str, before), map(str, after)))


def _costs(planned: RollingRestart, cost: MoveCost) -> dict[str, object]:
    return {
        "pause_ms": cost.pause_ms, "pause_is_at_most": cost.pause_is_at_most, "measured_moves": cost.moves,
        "duplicates": cost.duplicates(planned.moved_overlapped),
    }  # fmt: skip
