"""The columns of a client, and of a member of a group."""

from collections.abc import Iterable, Sequence
from typing import Any

from streaming.base.language import gettext
from streaming.queries import labels
from streaming.queries.columns.column import ColumnValue, Context, ResultColumn, Table, counted, health_value
from streaming.queries.results import GroupClient, GroupMember


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
    CLIENT[name] for name in ("client_id", "proxy", "language", "version", "address", "seen_at", "last_heartbeat")
)
"""Of a client behind a proxy, where its group is known."""


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
