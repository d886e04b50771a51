"""Query the clients of consumer groups: version, address, heartbeat, subscriptions, queues and incidents.

What derived tables do not have comes from the archive of telemetry: the brokers' and the proxies' lists of connections,
heartbeats (by hooks), and the clients' own answers. What the archive does not have (any more) is unknown.
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from rebalance_model.dialect import release_of
from streaming.base.errors import NotFoundError
from streaming.base.language import gettext, marked
from streaming.base.nearest import did_you_mean, full_name
from streaming.base.statements import statements_of
from streaming.queries.group_at import GroupAt, explain_nothing, find_group, instant_of
from streaming.queries.health import HEALTH, SEVERITY, Health
from streaming.queries.incidents import incident_from_row
from streaming.queries.present import Freshness, SilenceByCluster, last_known, present
from streaming.queries.results import ClientDetail, GroupClient, Interval
from streaming.tables.reader import ReadModel, Row

_BACK_MS = 300_000
"""The time for which the archive is read back: several heartbeats (30 s) and polls."""
_PROXY_ID = re.compile(r"(.+)%(\d+)%\d+")
"""The name of a proxy in the heartbeats that it copies: its address, its remoting port and its gRPC port."""
NOT_A_MEMBER, NOT_REPORTED = marked("has queues and is not a member"), marked("not reported for 5 minutes")
"""Why a client without an incident is not OK."""
_SQL = statements_of(__name__)
_Key = tuple[str, str, str]
"""Cluster, group and client id."""


def clients(
    model: ReadModel, group: str | None = None, *, cluster: str | None = None, at: int | None = None
) -> list[GroupClient]:
    """List the clients of all groups, or of one, the worst first: members, and others that still have queues.

    Raises:
        UserError: see `find_group`.
    """
    if group is not None:
        cluster = find_group(model, group, cluster, at).cluster
    listed = _clients(model, cluster, group, None, at)
    if not listed:
        explain_nothing(model, cluster, at)
    return listed


def clients_of_proxies(model: ReadModel, group_at: GroupAt, names: Collection[str] | None) -> tuple[GroupClient, ...]:
    """Return the clients with these ids in a group, by id; nothing is read for none."""
    if not names:
        return ()
    ids = frozenset(names)
    of_group = _clients(model, group_at.cluster, group_at.group, None, group_at.at)
    return tuple(sorted((client for client in of_group if client.client_id in ids), key=lambda c: c.client_id))


def client(
    model: ReadModel, client_id: str, *, group: str | None = None, cluster: str | None = None, since: int = 0,
    at: int | None = None,
) -> ClientDetail:  # fmt: skip
    """Return a client in each of its groups, the queues that it had since a time, and its incidents.

    The end of an id is sufficient if only one client has it: ``orders-2`` for ``10.0.0.5@orders-2``.

    Raises:
        NotFoundError: no group has, or had, such a client.
        UserError: several have such an end; or see `find_group`.
    """
    explain_nothing(model, cluster, at, group)
    parameters = {"client": client_id, "cluster": cluster, "group": group, "since": since, "instant": instant_of(at)}
    until = at if at is not None else present(model, None)
    owned = _rows(model, "intervals", parameters | {"until": until})
    intervals = tuple(Interval(**row).by(until) for row in owned)
    incidents = tuple(map(incident_from_row, _rows(model, "incidents", parameters)))
    listed = _clients(model, cluster, group, client_id, at)
    in_groups = tuple(member for member in listed if member.client_id == client_id)
    if not (in_groups or intervals or incidents):
        names = {member.client_id for member in listed}
        if (full := full_name(client_id, names, "client")) is not None:
            return client(model, full, group=group, cluster=cluster, since=since, at=at)
        advice = did_you_mean(client_id, names) or gettext("`rebalance-watch client list` lists the clients of a time.")
        raise NotFoundError(gettext("Unknown client {client_id}: {advice}", client_id=client_id, advice=advice))
    return ClientDetail(
        client_id=client_id, since=since, until=until, groups=in_groups, intervals=intervals, incidents=incidents
    )


def mixed_versions(members: Sequence[GroupClient]) -> dict[tuple[str, str], dict[str, int]]:
    """Return the members by version of each group (cluster and name) whose members run different known ones."""
    counts: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for member in members:
        if member.is_member and member.version is not None:
            counts[member.cluster, member.group][member.version] += 1
    return {key: dict(sorted(versions.items())) for key, versions in counts.items() if len(versions) > 1}


def _rows(model: ReadModel, name: str, parameters: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a query with those of the parameters that it has: DuckDB refuses others."""
    query = _SQL[name]
    return model.rows(query, {name: value for name, value in parameters.items() if f"${name}" in query})


def _clients(
    model: ReadModel, cluster: str | None, group: str | None, client_id: str | None, at: int | None
) -> list[GroupClient]:
    shown_at = present(model, at)
    parameters = {
        "cluster": cluster, "group": group, "client": client_id, "instant": instant_of(at), "now": shown_at,
        "back": _BACK_MS,
    }  # fmt: skip
    rows = partial(_rows, model, parameters=parameters)
    groups = rows("members")
    members = {(row["cluster"], row["group"], client) for row in groups for client in row["clients"]}
    queues = {_key(row): int(row["queues"]) for row in rows("owned")}
    # Owners may be there before the first state of their group: tables are appended to one after another.
    last = {(cluster, group): shown_at for cluster, group, _ in queues}
    last |= {(row["cluster"], row["group"]): row["time"] for row in groups}
    silence = SilenceByCluster(model, at, ((cluster, time) for (cluster, _), time in last.items()))
    attributes = _known(rows("lists"), rows("reports"))
    open_of: dict[_Key, list[Row]] = defaultdict(list)
    for row in rows("open_incidents"):
        for subject in {row["client_id"], row["subject"]} - {None}:
            open_of[row["cluster"], row["group"], subject].append(row)
    listed = [
        GroupClient(
            cluster=key[0], group=key[1], client_id=key[2], is_member=key in members, queues=queues.get(key, 0),
            open_incidents=len(open_of.get(key, ())), **attributes.get(key, {}),
        )
        for key in sorted(members | queues.keys())
    ]  # fmt: skip
    judged = (
        _as_heard(
            _with_health(client, open_of.get((client.cluster, client.group, client.client_id), ())),
            silence.of(client.cluster, last[client.cluster, client.group]),
        )
        for client in listed
    )
    return sorted(judged, key=lambda client: HEALTH[client.health].rank)


def _with_health(client: GroupClient, incidents: Sequence[Row]) -> GroupClient:
    """Return a client with its health, by the worst open incident about it."""
    worst = min(incidents, key=lambda row: (SEVERITY[row["severity"]].rank, row["code"]), default=None)
    health: Health = "OK"
    reason = ""
    if worst is not None and worst["severity"] != "info":
        health, reason = "BAD" if worst["severity"] == "critical" else "WARN", worst["code"]
    elif not client.is_member:
        health, reason = "WARN", NOT_A_MEMBER
    elif client.seen_at is None and client.last_heartbeat is None and client.subscriptions is None:
        health, reason = "UNKNOWN", NOT_REPORTED
    return client.model_copy(update={"health": health, "health_reason": reason})


def _as_heard(client: GroupClient, freshness: Freshness) -> GroupClient:
    """Return the client as it is shown by what had been heard of its group."""
    changes: dict[str, object] = {"telemetry_age_ms": freshness.age_ms, "is_stale": freshness.is_stale}
    if freshness.silent_since is not None and client.health != "UNKNOWN":
        changes |= {"health": "UNKNOWN", "health_reason": last_known(freshness.silent_since, client.health)}
    return client.model_copy(update=changes)


def _key(row: Row) -> _Key:
    return row["cluster"], row["group"], row["client_id"]


def _known(lists: list[Row], own: list[Row]) -> dict[_Key, dict[str, Any]]:
    """Return what the archive says of each client: a heartbeat has what a list has, by the broker's own clock."""
    attributes = _listed(lists)
    for row in own:
        client = attributes[_key(row)]
        version, language, channel, start_time, proxy = row["said"]
        if row["type"] == "PROXY_HEART_BEAT":  # the proxy names itself; its channel is not the client's
            channel = client.get("address")
            client["proxy"] = _PROXY_ID.sub(r"\1:\2", proxy or "") or client.get("proxy")
        if row["type"] != "CONSUMER_RUNNING_INFO":
            client["last_heartbeat"] = row["time"]
            if client.get("seen_at", 0) <= row["time"]:
                client |= _connection(version, language, channel, row["time"])
        elif start_time and int(start_time):
            client["started_at"] = int(start_time)
        if row["subscriptions"] is not None:
            topics = sorted(
                f"{topic['topic']} {topic['sub_string']}".rstrip() for topic in json.loads(row["subscriptions"]) or ()
            )
            client["subscriptions"] = tuple(topic for topic in topics if not topic.startswith("%RETRY%"))
    return attributes


def _listed(lists: list[Row]) -> dict[_Key, dict[str, Any]]:
    """Return what brokers and proxies list of each client; of several the last."""
    attributes: dict[_Key, dict[str, Any]] = defaultdict(dict)
    for row in lists:
        for connection in json.loads(row["connections"] or "[]") or ():
            client = attributes[row["cluster"], row["group"], connection["client_id"]]
            if client.get("seen_at", 0) <= row["time"]:
                client |= _connection(
                    connection.get("version"), connection.get("language"), connection.get("channel"), row["time"]
                )
            if row["proxy"] is not None:
                client["proxy"] = row["proxy"]
    return attributes


def _connection(version: str | int | None, language: str | None, channel: str | None, time: int) -> dict[str, Any]:
    number = int(version or 0)
    return {
        "version": release_of(number), "language": language or None, "address": channel or None, "seen_at": time
    }  # fmt: skip
