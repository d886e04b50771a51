"""The columns of a group."""

from streaming.base.language import gettext
from streaming.queries import labels
from streaming.queries.columns.column import ColumnValue, Context, ResultColumn, Table, counted, health_value, plain
from streaming.queries.results import Group


def _kind(group: Group, _: Context) -> str:
    return group.kind


def _unassigned(group: Group, _: Context) -> ColumnValue:
    if group.unowned is None:
        return ColumnValue(gettext("n/a") if group.coverage.owners_known else labels.NOT_KNOWN, "quiet")
    return counted(group.unowned)


def _members(group: Group, _: Context) -> ColumnValue:
    """Return the number of members, and of the clients that only proxies list: they consume as members do."""
    if not group.proxied_clients:
        return ColumnValue(labels.number(len(group.members)))
    by_proxy = gettext("{n} by proxy", n=labels.number(len(group.proxied_clients)))
    text = f"{labels.number(len(group.members))}, {by_proxy}" if group.members else by_proxy
    return ColumnValue(text, hint=gettext("clients of proxies, which no broker lists"))


def _health(group: Group, _: Context) -> ColumnValue:
    return health_value(group, group.health)


def _lag_sum(group: Group, _: Context) -> ColumnValue:
    text = labels.total(group.lag, group.lag_unknown, at_least=group.lag_is_at_least)
    return ColumnValue(
        text,
        hint="" if group.lag is None else gettext("observed up to {age} ago", age=labels.duration(group.lag_age_ms)),
    )


def _last_rebalance(group: Group, context: Context) -> ColumnValue:
    known = group.last_rebalance
    return ColumnValue(gettext("none"), "quiet") if known is None else plain("time", known, context)


GROUP = Table(
    ResultColumn(Group, "health", show=_health, wide=True),
    ResultColumn(Group, "cluster"),
    ResultColumn(Group, "group"),
    ResultColumn(Group, "kind", "text", _kind, "Kind", ("orderly", "message_model", "consume_type"), spare=True),
    ResultColumn(Group, "members", "count", _members),
    ResultColumn(Group, "queues", "count"),
    ResultColumn(Group, "unowned", "count", _unassigned),
    ResultColumn(Group, "lag", "count", _lag_sum),
    ResultColumn(Group, "lag_age_ms", "duration", spare=True),
    ResultColumn(Group, "lag_unknown", "count", lambda g, _: counted(g.lag_unknown), spare=True),
    ResultColumn(Group, "last_rebalance", "time", _last_rebalance, spare=True),
    ResultColumn(Group, "time", "time", spare=True),
    ResultColumn(Group, "incidents", "line", lambda g, _: labels.open_incidents(**g.incidents.model_dump())),
    ResultColumn(Group, "health_reason", show=lambda g, _: labels.reason(g.health_reason)),
    grid="health cluster group kind members queues unowned lag lag_age_ms lag_unknown last_rebalance time incidents"
    " health_reason",
    page="group health incidents lag members queues unowned last_rebalance",
)
