"""The columns of a client, and of a member of a group."""

from collections.abc import Iterable, Sequence
from typing import Any

from streaming.base.language import gettext
from streaming.queries import labels
from streaming.queries.columns.column import Column, Context, Table, Value, counted
from streaming.queries.results import Client, Member


def _membership(row: Any, _: Context) -> Value:
    return Value("") if row.is_member else Value(gettext("not a member"), "attention")


def _heartbeat(client: Client, context: Context) -> str:
    known = client.last_heartbeat
    return labels.NOT_KNOWN if known is None else labels.ago(max(0, context.now - known))


def _subscribed(client: Client, _: Context) -> str:
    return labels.NOT_KNOWN if client.subscriptions is None else ", ".join(client.subscriptions)


def _client_health(client: Client, _: Context) -> Value:
    return Value(f"{client.health} {gettext(client.health_reason)}".rstrip(), client.health)


CLIENT = Table(
    Column(Client, "client_id", "client"),
    Column(Client, "health", show=_client_health, wide=True),
    Column(Client, "cluster"),
    Column(Client, "group"),
    Column(Client, "is_member", show=_membership),
    Column(Client, "queues", "count"),
    Column(Client, "version"),
    Column(Client, "language", spare=True),
    Column(Client, "address", "name", spare=True),
    Column(Client, "proxy", "name", spare=True),
    Column(Client, "last_heartbeat", "duration", _heartbeat, spare=True),
    Column(Client, "seen_at", "time", spare=True),
    Column(Client, "started_at", "time", spare=True),
    Column(Client, "subscriptions", show=_subscribed, spare=True, wide=True),
    Column(Client, "open_incidents", "count", lambda c, _: counted(c.open_incidents)),
    grid="client_id health cluster group is_member queues version language address proxy last_heartbeat seen_at"
    " subscriptions open_incidents",
    page="client_id health group is_member queues version language address proxy last_heartbeat seen_at subscriptions"
    " open_incidents",
)
PROXIED_COLUMNS = tuple(
    CLIENT[name] for name in ("client_id", "proxy", "language", "version", "address", "seen_at", "last_heartbeat")
)
"""Of a client behind a proxy, where its group is known."""


def shown_columns(columns: Sequence[Column[Client]], clients: Iterable[Client]) -> list[Column[Client]]:
    """Return the columns without the proxy, if none of the clients is behind one."""
    has_proxies = any(one.proxy is not None for one in clients)
    return [column for column in columns if has_proxies or column.name != "proxy"]


MEMBER = Table(
    Column(Member, "client_id", "client"),
    Column(Member, "queues", "count"),
    Column(Member, "is_member", show=_membership),
    grid="client_id queues is_member",
)
