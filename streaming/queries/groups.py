"""Query consumer groups: their state, brokers, and the messages that listeners refused.

Two things look alike in what a group's page shows of a broker's queues: the broker was asked and did not answer, or had
no turn (`streaming.collect.poll`). Only the archive of telemetry tells them apart: a request without an answer is an
event, too.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rebalance_model.entities import DEAD_LETTER_TOPIC_PREFIX, RETRY_TOPIC_PREFIX, in_java_order
from rebalance_model.observe.events import DEADLINE, NOT_ASKED, UNREACHABLE
from streaming.base.statements import statements_of, with_parts
from streaming.queries.clients import clients_of_proxies
from streaming.queries.group_at import GroupAt, explain_nothing, instant_of
from streaming.queries.health import HEALTH, Health, WithoutOwner, without_owner
from streaming.queries.incidents import count_of_roots, group_incidents, unreachable_brokers
from streaming.queries.observed import counts_for_lag, observed
from streaming.queries.present import Freshness, SilenceByCluster, present
from streaming.queries.rebalances import rebalances
from streaming.queries.results import (
    FailedMessages,
    Group,
    GroupBroker,
    GroupMember,
    OpenIncidents,
    Overview,
    TelemetryCoverage,
)
from streaming.queries.results.groups import ASKED_WITHIN_MS
from streaming.queries.roots import folded
from streaming.tables.observations import LEVELS, LOOK_BACK_MS
from streaming.tables.reader import ReadModel, Row

GROWTH_MS = 3_600_000
"""The time over which added messages are counted."""
_SLICE_MS = 300_000
"""The precision of the beginning of that time where history begins within it."""

_COLUMNS = ["lag", "broker_offset", "min_offset", "stored_at"]
_OF_OFFSETS = "p.kind IN ('CONSUME_STATS', 'TOPIC_STATS')"
_AT_THE_ENDS = "(p.time <= from_ms($since + 300000) OR p.time > from_ms($until - $back))"
"""Only answers at both ends of the time, two fifths of all; for the 5 minutes see `observed.sql`."""


def _failed(condition: str) -> str:
    """Return the query, over the answers of a condition as in `observed`."""
    answers = observed(_COLUMNS, condition, "$retry, $dead")
    return with_parts(statements_of(__name__)["failed_messages"], observed=answers)


_IN_SHORT = _failed(f"{_OF_OFFSETS} AND {_AT_THE_ENDS}")
_IN_FULL = _failed(_OF_OFFSETS)
"""Where the history of a topic begins within the time: its first answer counts."""


def failed_messages(model: ReadModel, group_at: GroupAt) -> list[FailedMessages]:
    """Return the retry topic of a group at each broker, then its dead-letter topic; one that is unknown is left out."""
    until = present(model, group_at.at)
    parameters = {
        "cluster": group_at.cluster,
        "group": group_at.group,
        "retry": f"{RETRY_TOPIC_PREFIX}{group_at.group}",
        "dead": f"{DEAD_LETTER_TOPIC_PREFIX}{group_at.group}",
        "since": until - GROWTH_MS,
        "until": until,
        "step": _SLICE_MS,
        "back": LOOK_BACK_MS,
    }
    begins = min((span[0] for table in LEVELS if (span := model.span(table)) is not None), default=until)
    rows = model.rows(_IN_SHORT if begins <= until - GROWTH_MS else _IN_FULL, parameters)
    if begins <= until - GROWTH_MS and any(row["added_since"] > until - GROWTH_MS for row in rows):
        rows = model.rows(_IN_FULL, parameters)
    recent = (row for row in rows if row["age_ms"] <= LOOK_BACK_MS)
    return [FailedMessages(**row | {"added_ms": until - row.pop("added_since")}) for row in recent]


_SQL = statements_of(__name__)
_FRESH_MS = 30_000
"""An answer is fresh for two intervals, and so long at least."""


def group_brokers(model: ReadModel, group_at: GroupAt) -> list[GroupBroker]:
    """List the brokers of a group; none if nothing was polled, or there is no archive."""
    of_group = {"cluster": group_at.cluster, "group": group_at.group, "back": ASKED_WITHIN_MS}
    [archive] = model.rows(_SQL["heard"], of_group | {"now": present(model, group_at.at)})
    if (heard := archive["heard"]) is None:
        return []
    fresh_ms = max(_FRESH_MS, 2 * (archive["interval_ms"] or 0))
    silence = {"silence": [UNREACHABLE, DEADLINE], "not_asked": NOT_ASKED}
    rows = model.rows(_SQL["brokers"], of_group | silence | {"instant": group_at.instant, "now": heard})
    if silent := [row for row in rows if row["silent_since"] is not None]:  # longer than the requests are read back
        unreachable = unreachable_brokers(model, group_at)
        for row in silent:
            row["silent_since"] = min(row["silent_since"], unreachable.get(row["broker"], row["silent_since"]))
    return [GroupBroker(**row, as_of=heard, is_fresh=heard - (row["answered_at"] or 0) <= fresh_ms) for row in rows]


_GROUPS = with_parts(_SQL["groups"], counts_for_lag=counts_for_lag("s", "s.group"))
LAST_REBALANCES = 5
"""The number of rebalances in an overview."""


class LastGroupState(NamedTuple):
    """The last reported attributes of a group, without its queues and incidents."""

    members: Sequence[str]
    message_model: str
    consume_type: str
    orderly: bool | None
    strategy: str | None
    health: Health
    health_reason: str
    coverage: TelemetryCoverage
    freshness: Freshness

    @property
    def without_owner(self) -> WithoutOwner:
        """Return what a queue of the group without a known owner is."""
        sharing = self.coverage.sharing
        return without_owner(message_model=self.message_model, consume_type=self.consume_type, sharing=sharing)


def is_divided(*, message_model: str, consume_type: str, sharing: str) -> bool:
    """Return whether each queue of a group has one owner, so that one without an owner is unassigned.

    Broadcasting clients each read every queue, and popping ones share them; the owners of pull consumers and of clients
    behind a proxy are unknown.

    Args:
        message_model: the message model of the group.
        consume_type: the consume type of the group.
        sharing: `TelemetryCoverage.sharing` of the group; empty in rows of an earlier release.
    """
    divided = message_model != "BROADCASTING" and consume_type != "CONSUME_ACTIVELY"
    return divided and sharing in {"", "DIVIDED", "MIXED"}


def groups(model: ReadModel, at: int | None = None, cluster: str | None = None) -> list[Group]:
    """List all groups, unhealthy ones first.

    Raises:
        NotFoundError: the cluster is unknown.
        UserError: the instant is before the beginning of history.
    """
    selection = {"instant": instant_of(at), "cluster": cluster, "group": None}
    rows = _read(model, selection, at)
    if not rows:
        explain_nothing(model, cluster, at)

    def worst_first(group: Group) -> tuple[int, int, int]:
        return HEALTH[group.health].rank, -group.incidents.critical, -group.incidents.warning

    return sorted((group for _, group in rows), key=worst_first)


def overview(model: ReadModel, group_at: GroupAt) -> Overview:
    """Return one group with its members, open incidents and last rebalances."""
    [(row, group)] = _read(model, group_at._asdict(), group_at.at)
    owned = dict(row["owned"] or ())
    clients = in_java_order([*group.members, *(client for client in owned if client not in group.members)])
    last = rebalances(model, group_at, until=group_at.at, last=LAST_REBALANCES)
    return Overview(
        group=group,
        members=tuple(
            GroupMember(client_id=client, queues=owned.get(client, 0), is_member=client in group.members)
            for client in clients
        ),
        incidents=tuple(folded(group_incidents(model, group_at, only_open=True))),
        rebalances=tuple(rebalance.model_copy(update={"moves": ()}) for rebalance in last),
        failed=tuple(failed_messages(model, group_at)),
        proxied=clients_of_proxies(model, group_at, group.proxied_clients),
        brokers=tuple(group_brokers(model, group_at)),
    )


def read_group(model: ReadModel, group_at: GroupAt) -> Group:
    """Return the state of a group."""
    [(_, group)] = _read(model, group_at._asdict(), group_at.at)
    return group


def last_group_state(model: ReadModel, group_at: GroupAt) -> LastGroupState:
    """Return the last reported attributes of a group, without reading its queues and incidents."""
    [row] = model.rows_once(_SQL["last_state"], group_at._asdict())
    last, columns = row["time"], {name: row[name] for name in LastGroupState._fields if name in row}
    freshness = SilenceByCluster(model, group_at.at, [(group_at.cluster, last)]).of(group_at.cluster, last)
    unknown = dict(zip(("health", "health_reason"), freshness.health(row["health"]) or (), strict=False))
    coverage = TelemetryCoverage.model_validate_json(row["coverage"])
    return LastGroupState(**columns | unknown | {"coverage": coverage, "freshness": freshness})


def _read(model: ReadModel, selection: Mapping[str, Any], at: int | None) -> list[tuple[Row, Group]]:
    """Return each row with the group that it shows, which is stale or UNKNOWN if too little was heard of it lately."""
    roots = count_of_roots(model, selection["instant"], selection["cluster"], selection["group"])
    parameters = {**selection, "now": present(model, at)}
    rows = [(row, _group(row, roots(row["cluster"], row["group"]))) for row in model.rows(_GROUPS, parameters)]
    silence = SilenceByCluster(model, at, ((group.cluster, group.time) for _, group in rows))
    return [(row, _as_heard(group, silence.of(group.cluster, group.time))) for row, group in rows]


def _as_heard(group: Group, freshness: Freshness) -> Group:
    changes: dict[str, object] = {"telemetry_age_ms": freshness.age_ms, "is_stale": freshness.is_stale}
    if (unknown := freshness.health(group.health)) is not None:
        changes |= {"health": unknown[0], "health_reason": unknown[1]}
    return group.model_copy(update=changes)


def _group(row: Row, roots: Mapping[str, int]) -> Group:
    incidents = OpenIncidents(**{name: roots.get(name, 0) for name in OpenIncidents.model_fields})
    columns = {name: row[name] for name in Group.model_fields if name in row}
    coverage = TelemetryCoverage.model_validate_json(row["coverage"])
    model, kind = row["message_model"], row["consume_type"]
    divided = is_divided(message_model=model, consume_type=kind, sharing=coverage.sharing)
    unowned = row["unowned"] if divided and coverage.owners_known else None
    return Group(**columns | {"incidents": incidents, "coverage": coverage, "unowned": unowned})
