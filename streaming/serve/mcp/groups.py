"""Tools about groups, their clients, and what would change."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from streaming.queries import groups as of_groups
from streaming.queries import lag as of_lag
from streaming.queries.clients import client, clients
from streaming.queries.group_at import find_group
from streaming.queries.plan import Plan
from streaming.queries.present import asked_instant, begin_of, period_of
from streaming.queries.results import ClientDetail, Group, GroupClient, LagPoint, Overview
from streaming.queries.rolling_restart import RollingRestart, rolling_restart
from streaming.queries.what_if import what_if
from streaming.serve.mcp.dated import (
    ROWS,
    At,
    Cluster,
    DatedAnswer,
    GroupName,
    Limit,
    Since,
    Tools,
    Topic,
    Until,
    dated,
    dated_list,
)


class GroupTools(Tools):
    """The tools."""

    def list_groups(self, *, at: At = None, cluster: Cluster = None, limit: Limit = ROWS) -> DatedAnswer[list[Group]]:
        """List all consumer groups at a time, unhealthy ones first.

        Each has its health with the reason, members, queues, lag, number of open incidents, last rebalance and
        telemetry coverage. Start here.
        """
        model, instant = self._store.model(), asked_instant(at)
        return dated_list(model, of_groups.groups(model, instant, cluster), limit, instant, cluster)

    def show_group(self, *, group: GroupName, at: At = None, cluster: Cluster = None) -> DatedAnswer[Overview]:
        """Show one group at a time.

        Health and its reason, lag, members with their number of queues, open incidents, last rebalances, and messages
        in its retry and dead-letter topics.
        """
        model, instant = self._store.model(), asked_instant(at)
        group_at = find_group(model, group, cluster, instant)
        return dated(model, of_groups.overview(model, group_at), instant, group_at.cluster)

    def show_lag(
        self,
        *,
        group: GroupName,
        since: Since = None,
        until: Until = None,
        slices: Annotated[int, Field(ge=1, le=2_000, description="Number of equal slices of the period.")] = 12,
        cluster: Cluster = None,
    ) -> DatedAnswer[list[LagPoint]]:
        """Show lag (messages) and longest waiting time (milliseconds) of each topic of a group over a period.

        They are those at the end of each slice. For the lag at one instant use show_group, for that of each queue
        list_queues.
        """
        model, period = self._store.model(), period_of(self._store.model(), since, until)
        group_at = find_group(model, group, cluster)
        points = of_lag.lag(model, group_at, period.since, period.until, slices)
        return dated(model, points, asked_instant(until), group_at.cluster)

    def list_clients(
        self,
        *,
        group: Annotated[str | None, Field(description="Only clients of this group. Default: of all groups.")] = None,
        at: At = None,
        cluster: Cluster = None,
        limit: Limit = ROWS,
    ) -> DatedAnswer[list[GroupClient]]:
        """List the clients at a time, with their number of queues and of open incidents.

        Also version, language, address, last heartbeat and subscriptions. A client with open incidents is unhealthy;
        show_client names them.
        """
        model, instant = self._store.model(), asked_instant(at)
        if group is not None:
            cluster = find_group(model, group, cluster, instant).cluster
        return dated_list(model, clients(model, group, cluster=cluster, at=instant), limit, instant, cluster)

    def show_client(
        self,
        *,
        client_id: Annotated[str, Field(description="Id of the client, or the end of it where only one has that.")],
        group: Annotated[str | None, Field(description="Only in this group. Default: in all its groups.")] = None,
        since: Annotated[
            str | int | None, Field(description="Queues and incidents since this time. Default: all of history.")
        ] = None,
        at: At = None,
        cluster: Cluster = None,
    ) -> DatedAnswer[ClientDetail]:
        """Show one client: its groups at a time, which queues it owned when, and its incidents."""
        model, instant = self._store.model(), asked_instant(at)
        begin = begin_of(model, since, instant)
        detail = client(model, client_id, group=group, cluster=cluster, since=begin, at=instant)
        return dated(model, detail, instant, cluster)

    def what_if(
        self,
        *,
        group: GroupName,
        leave: Annotated[
            Sequence[str], Field(description="Clients that leave: their ids, or ends of ids that only one has.")
        ] = (),
        join: Annotated[
            Sequence[str], Field(description="Clients that join: their ids, or a number of new clients such as '2'.")
        ] = (),
        clients: Annotated[
            Sequence[str] | None, Field(description="Ids of all clients, instead of the current members.")
        ] = None,
        topic: Topic = None,
        strategy: Annotated[
            str | None,
            Field(description="Strategy to include even if the policy does not state what it needs, such as CONFIG."),
        ] = None,
        queues: Annotated[
            bool,
            Field(description="True to name each queue that moves; false for a group of hundreds: only numbers."),
        ] = True,
        at: At = None,
        cluster: Cluster = None,
    ) -> DatedAnswer[list[Plan]]:
        """Predict the owners of a group's queues after clients leave or join.

        The answer has a plan of each allocation strategy for each topic, the group's own strategy first: the queues
        that move, what each client gains and loses, and the expected pause (milliseconds) and duplicates (messages).
        """
        model, instant = self._store.model(), asked_instant(at)
        group_at = find_group(model, group, cluster, instant)
        prediction = what_if(
            model, group_at, clients=clients, leave=leave, join=join, topic=topic, strategy=strategy
        )  # fmt: skip
        plans = prediction.plans if queues else [_without_queues(plan) for plan in prediction.plans]
        return dated(model, plans, instant, group_at.cluster)

    def plan_rolling_restart(
        self, group: GroupName, at: At = None, cluster: Cluster = None
    ) -> DatedAnswer[RollingRestart]:
        """Plan a restart of all members of a group that moves the fewest queues: order and moves of each step."""
        model, instant = self._store.model(), asked_instant(at)
        group_at = find_group(model, group, cluster, instant)
        return dated(model, rolling_restart(model, group_at), instant, group_at.cluster)


def _without_queues(plan: Plan) -> Plan:
    """Return a plan with its numbers alone."""
    shares = tuple(share.model_copy(update={"gains": (), "loses": ()}) for share in plan.shares)
    return plan.model_copy(update={"moves": (), "shares": shares})
