"""Tools about queues, who owned them when, and the rebalances that moved them."""

from typing import Annotated

from pydantic import Field

from streaming.base.limits import REBALANCES
from streaming.queries import ownership
from streaming.queries import rebalances as of_rebalances
from streaming.queries.group_at import find_group
from streaming.queries.present import asked_instant, begin_of, period_of, present
from streaming.queries.queue_history import queue_detail
from streaming.queries.queue_owners import QueueOwner, queue_owner, queue_owners
from streaming.queries.results import (
    Interval,
    OwnerChange,
    QueryResult,
    Queue,
    QueueDetail,
    Rebalance,
    RebalanceTotals,
)
from streaming.serve.mcp.dated import (
    ROWS,
    At,
    Cluster,
    DatedAnswer,
    GroupName,
    Limit,
    QueueName,
    Retry,
    Since,
    Tools,
    Topic,
    Until,
    dated,
    dated_list,
    queue_of,
)

_PERIOD_MS = 600_000


class RebalanceList(QueryResult):
    """The rebalances of a period, and what they have cost together."""

    totals: RebalanceTotals
    rebalances: tuple[Rebalance, ...] = Field(description="Newest first.")


class OwnershipTools(Tools):
    """The tools."""

    def list_queues(
        self,
        *,
        group: GroupName,
        topic: Topic = None,
        problems_only: Annotated[
            bool, Field(description="Only queues that are not OK or have an unexpected owner.")
        ] = False,
        retry: Retry = False,
        at: At = None,
        cluster: Cluster = None,
        limit: Limit = ROWS,
    ) -> DatedAnswer[list[Queue]]:
        """List the queues of a group at a time.

        Each has its owner, expected owner, status with the reason, lag, waiting time, and the ages of lock, pull and
        consumption.
        """
        model, instant = self._store.model(), asked_instant(at)
        group_at = find_group(model, group, cluster, instant)
        queues = ownership.queues(model, group_at, topic, retry=retry)
        if problems_only:
            queues = [queue for queue in queues if queue.is_problem]
        return dated_list(model, queues, limit, instant, group_at.cluster)

    def show_queue(
        self,
        *,
        group: GroupName,
        queue: QueueName,
        since: Annotated[
            str | int | None, Field(description="Start of the period. Default: 10 minutes before `at`.")
        ] = None,
        at: At = None,
        cluster: Cluster = None,
    ) -> DatedAnswer[QueueDetail]:
        """Show one queue of a group at a time, and over the period before it.

        Owners, offsets, lag, lock, rebalances and incidents. Use it to find out why a queue is stuck.
        """
        model, instant, mq = self._store.model(), asked_instant(at), queue_of(queue)
        group_at = find_group(model, group, cluster, instant)
        begin = present(model, instant) - _PERIOD_MS if since is None else begin_of(model, since, instant)
        return dated(model, queue_detail(model, group_at, mq, begin), instant, group_at.cluster)

    def who_owned(
        self,
        *,
        queue: QueueName,
        group: Annotated[str | None, Field(description="Only in this group. Default: each group that has it.")] = None,
        at: At = None,
        cluster: Cluster = None,
    ) -> DatedAnswer[list[QueueOwner]]:
        """Show which client owned a queue at a time, in each group that has the queue.

        From when, until when, how it got and lost the queue, and by which rebalance.
        """
        model, instant, mq = self._store.model(), asked_instant(at), queue_of(queue)
        if group is not None:
            group_at = find_group(model, group, cluster, instant)
            cluster, owners = group_at.cluster, [queue_owner(model, group_at, mq)]
        else:
            owners = queue_owners(model, mq.topic, mq.broker, mq.queue_id, cluster=cluster, at=instant)
        return dated(model, owners, instant, cluster)

    def list_ownership(
        self,
        *,
        group: GroupName,
        since: Since = None,
        until: Until = None,
        topic: Topic = None,
        retry: Retry = False,
        cluster: Cluster = None,
        limit: Limit = ROWS,
    ) -> DatedAnswer[list[Interval]]:
        """List which client owned which queue of a group from when until when, within a period.

        By queue and time.
        """
        model, period = self._store.model(), period_of(self._store.model(), since, until)
        group_at = find_group(model, group, cluster)
        intervals = ownership.intervals(model, group_at, period.since, period.until, topic, retry=retry)
        return dated_list(model, intervals, limit, asked_instant(until), group_at.cluster)

    def diff_owners(
        self,
        *,
        group: GroupName,
        earlier: Annotated[str | int, Field(description="The earlier time, in the forms of the other tools.")],
        later: Annotated[str | int | None, Field(description="The later time. Default: now.")] = None,
        topic: Topic = None,
        retry: Retry = False,
        cluster: Cluster = None,
    ) -> DatedAnswer[list[OwnerChange]]:
        """List the queues of a group whose owner differs between two times, with both owners."""
        model, end = self._store.model(), asked_instant(later)
        begin = begin_of(model, earlier, end)
        group_at = find_group(model, group, cluster, begin)
        changes = ownership.diff(model, group_at, end, topic, retry=retry)
        return dated(model, changes, end, group_at.cluster)

    def list_rebalances(
        self,
        *,
        group: GroupName,
        since: Annotated[
            str | int | None, Field(description="Start of the period. Default: the beginning of history.")
        ] = None,
        until: Until = None,
        last: Annotated[
            int, Field(ge=1, le=REBALANCES, description="Maximum number of rebalances, the newest ones.")
        ] = 20,
        moves: Annotated[
            bool, Field(description="True to include every move; without it `moves` is empty, see show_rebalance.")
        ] = False,
        cluster: Cluster = None,
    ) -> DatedAnswer[RebalanceList]:
        """List the rebalances of a group, newest first, and their totals with the id of the costliest one.

        Each has its cause, trigger, queues moved and the minimum, longest pause (milliseconds) and duplicates
        (messages); the totals have the number by cause.
        """
        model, end = self._store.model(), asked_instant(until)
        begin = begin_of(model, since, end)
        group_at = find_group(model, group, cluster)
        rebalances = of_rebalances.rebalances(model, group_at, begin, end, last)
        if not moves:
            rebalances = [rebalance.model_copy(update={"moves": ()}) for rebalance in rebalances]
        totals = of_rebalances.rebalance_totals(model, group_at, begin, end)
        answer = RebalanceList(totals=totals, rebalances=tuple(rebalances))
        return dated(model, answer, end, group_at.cluster, totals.rebalances - len(rebalances))

    def show_rebalance(
        self,
        *,
        group: GroupName,
        rebalance_id: Annotated[str, Field(description="Id of the rebalance, or a beginning of it that is unique.")],
        cluster: Cluster = None,
    ) -> DatedAnswer[Rebalance]:
        """Show one rebalance with every move: queue, from which client to which, its pause (milliseconds)."""
        model = self._store.model()
        group_at = find_group(model, group, cluster)
        return dated(model, of_rebalances.rebalance(model, group_at, rebalance_id), None, group_at.cluster)
