"""Columns of groups, their members and clients, and their retry and dead-letter topics."""

from collections.abc import Iterable, Sequence
from typing import Any

from streaming.base.language import gettext
from streaming.queries import labels
from streaming.queries.columns.column import (
    ColumnValue,
    Context,
    ResultColumn,
    Table,
    Tone,
    counted,
    health_value,
    observed,
    plain,
)
from streaming.queries.results import FailedMessages, Group, GroupBroker, GroupClient, GroupMember
from streaming.queries.results.groups import ASKED_WITHIN_MS


def _membership(row: Any, _: Context) -> ColumnValue:
    return ColumnValue("") if row.is_member else ColumnValue(gettext("not a member"), "attention")


def _heartbeat(client: GroupClient, context: Context) -> str:
    known = client.last_heartbeat
    return labels.NOT_KNOWN if known is None else labels.ago(max(0, context.now - known))


def _subscribed(client: GroupClient, _: Context) -> str:
    return labels.NOT_KNOWN if client.subscriptions is None else ", ".join(client.subscriptions)


def _version(client: GroupClient, _: Context) -> ColumnValue:
    """Return the release; behind a proxy it is the proxy's, whose protocol the client speaks."""
    if client.version is None or client.proxy is None:
        return ColumnValue(client.version or labels.NOT_KNOWN)
    hint = gettext("the proxy's release: a proxy does not say that of its clients")
    return ColumnValue(gettext("protocol {version}", version=client.version), hint=hint)


def _language(client: GroupClient, _: Context) -> ColumnValue:
    known = client.language
    hint = gettext("the client declares no language that RocketMQ knows, as that of Node.js") if known == "HTTP" else ""
    return ColumnValue(labels.NOT_KNOWN if known is None else known, hint=hint)


def _client_health(client: GroupClient, _: Context) -> ColumnValue:
    return health_value(client, f"{client.health} {gettext(client.health_reason)}".rstrip())


CLIENT = Table(
    ResultColumn(GroupClient, "client_id", "client"),
    ResultColumn(GroupClient, "health", show=_client_health, wide=True),
    ResultColumn(GroupClient, "cluster"),
    ResultColumn(GroupClient, "group"),
    ResultColumn(GroupClient, "is_member", show=_membership),
    ResultColumn(GroupClient, "queues", "count"),
    ResultColumn(GroupClient, "version", show=_version),
    ResultColumn(GroupClient, "language", show=_language, spare=True),
    ResultColumn(GroupClient, "address", "name", spare=True, wide=True),
    ResultColumn(GroupClient, "proxy", "name", spare=True, wide=True),
    ResultColumn(GroupClient, "last_heartbeat", "duration", _heartbeat, spare=True),
    ResultColumn(GroupClient, "seen_at", "time", spare=True),
    ResultColumn(GroupClient, "started_at", "time", spare=True),
    ResultColumn(GroupClient, "subscriptions", show=_subscribed, spare=True, wide=True),
    ResultColumn(GroupClient, "open_incidents", "count", lambda c, _: counted(c.open_incidents)),
    grid="client_id health cluster group is_member queues version language address proxy last_heartbeat seen_at"
    " subscriptions open_incidents",
    page="client_id health group is_member queues version language address proxy last_heartbeat seen_at subscriptions"
    " open_incidents",
)
PROXIED_COLUMNS = tuple(
    CLIENT[name]
    for name in ("client_id", "health", "proxy", "language", "version", "address", "seen_at", "last_heartbeat")
)
"""Columns of a client behind a proxy, where its group is known."""


def shown_columns(
    columns: Sequence[ResultColumn[GroupClient]], clients: Iterable[GroupClient]
) -> list[ResultColumn[GroupClient]]:
    """Return the columns without the proxy, if none of the clients is behind one."""
    has_proxies = any(one.proxy is not None for one in clients)
    return [column for column in columns if has_proxies or column.name != "proxy"]


MEMBER = Table(
    ResultColumn(GroupMember, "client_id", "client"),
    ResultColumn(GroupMember, "queues", "count"),
    ResultColumn(GroupMember, "is_member", show=_membership),
    grid="client_id queues is_member",
)


def _given_up(failed: FailedMessages, _: Context) -> ColumnValue:
    return ColumnValue(gettext("dead letters") if failed.given_up else gettext("to be tried again"))


def _failed(failed: FailedMessages, _: Context) -> ColumnValue:
    return observed(labels.number(failed.messages), failed.age_ms, is_stale=failed.is_stale)


def _added(failed: FailedMessages, _: Context) -> ColumnValue:
    if failed.added is None:
        return ColumnValue(labels.NOT_KNOWN)
    tone: Tone = "attention" if failed.added and failed.given_up else ""
    return ColumnValue(
        labels.number(failed.added),
        tone,
        gettext("in {duration}", duration=labels.duration(failed.added_ms)) if failed.added else "",
    )


FAILED_MESSAGES = Table(
    ResultColumn(FailedMessages, "given_up", "text", _given_up),
    ResultColumn(FailedMessages, "broker", "name"),
    ResultColumn(FailedMessages, "messages", "count", _failed),
    ResultColumn(FailedMessages, "added", "count", _added),
    ResultColumn(FailedMessages, "newest_at", "time", spare=True),
    ResultColumn(FailedMessages, "topic", "name", wide=True),
    grid="given_up broker messages added newest_at",
    page="given_up broker messages added newest_at topic",
)


def freshness(broker: GroupBroker) -> str:
    """Return in words how fresh a broker's answers are."""
    now = broker.as_of
    if broker.asked_at is None:
        return gettext("not asked for more than {duration}", duration=labels.duration(ASKED_WITHIN_MS))
    asked_ms = max(0, now - broker.asked_at)
    if broker.silent_since is None:
        return gettext("not asked for {duration}", duration=labels.duration(asked_ms))
    return gettext(
        "asked, no answer since {time} ({duration}), last asked {asked}",
        time=labels.moment(broker.silent_since, now), duration=labels.duration(now - broker.silent_since),
        asked=labels.ago(asked_ms),
    )  # fmt: skip


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
    ResultColumn(Group, "lag", "count", _lag_sum, wide=True),
    ResultColumn(Group, "lag_age_ms", "duration", spare=True),
    ResultColumn(Group, "lag_unknown", "count", lambda g, _: counted(g.lag_unknown), spare=True),
    ResultColumn(Group, "last_rebalance", "time", _last_rebalance, spare=True),
    ResultColumn(Group, "time", "time", spare=True, wide=True),
    ResultColumn(Group, "incidents", "line", lambda g, _: labels.open_incidents(**g.incidents.model_dump())),
    ResultColumn(Group, "health_reason", show=lambda g, _: labels.reason(g.health_reason)),
    grid="health cluster group kind members queues unowned lag lag_age_ms lag_unknown last_rebalance time incidents"
    " health_reason",
    page="group health lag incidents members queues unowned last_rebalance",
)
