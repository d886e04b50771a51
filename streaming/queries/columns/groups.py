"""The columns of a group."""

from streaming.base.language import gettext
from streaming.queries import labels
from streaming.queries.columns.column import Column, Context, Table, Value, counted, plain
from streaming.queries.results import Group


def _kind(group: Group, _: Context) -> str:
    return group.kind


def _unowned(group: Group, _: Context) -> Value:
    if group.unowned is None:
        return Value(gettext("n/a") if group.coverage.owners_known else labels.NOT_KNOWN, "quiet")
    return counted(group.unowned)


def _health(group: Group, _: Context) -> Value:
    if not group.is_stale or group.health == "UNKNOWN":
        return Value(group.health, group.health)
    age = labels.duration(group.telemetry_age_ms)
    return Value(group.health, "stale" if group.health == "OK" else group.health, gettext("stale, {age} old", age=age))


def _lag_sum(group: Group, _: Context) -> Value:
    text = labels.total(group.lag, group.lag_unknown, at_least=group.lag_is_at_least)
    return Value(
        text,
        hint="" if group.lag is None else gettext("observed up to {age} ago", age=labels.duration(group.lag_age_ms)),
    )


def _last_rebalance(group: Group, context: Context) -> Value:
    known = group.last_rebalance
    return Value(gettext("none"), "quiet") if known is None else plain("time", known, context)


GROUP = Table(
    Column(Group, "health", show=_health, wide=True),
    Column(Group, "cluster"),
    Column(Group, "group"),
    Column(Group, "kind", "text", _kind, "Kind", ("orderly", "message_model", "consume_type"), spare=True),
    Column(Group, "members", "count", lambda g, _: labels.number(len(g.members))),
    Column(Group, "queues", "count"),
    Column(Group, "unowned", "count", _unowned),
    Column(Group, "lag", "count", _lag_sum),
    Column(Group, "lag_age_ms", "duration", spare=True),
    Column(Group, "lag_unknown", "count", lambda g, _: counted(g.lag_unknown), spare=True),
    Column(Group, "last_rebalance", "time", _last_rebalance, spare=True),
    Column(Group, "time", "time", spare=True),
    Column(Group, "incidents", "line", lambda g, _: labels.open_incidents(**g.incidents.model_dump())),
    Column(Group, "health_reason", show=lambda g, _: labels.reason(g.health_reason)),
    grid="health cluster group kind members queues unowned lag lag_age_ms lag_unknown last_rebalance time incidents"
    " health_reason",
    page="group health incidents lag members queues unowned last_rebalance",
)
