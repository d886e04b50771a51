"""Find the group that a query is about."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from rebalance_model.entities import INT64_MAX
from streaming.base.errors import NotFoundError, UserError
from streaming.base.language import gettext, marked
from streaming.base.nearest import closest, did_you_mean
from streaming.base.statements import statements_of
from streaming.base.times import written
from streaming.queries.present import dropped_by_age
from streaming.tables.reader import ReadModel, Row

_SQL = statements_of(__name__)


class GroupAt(NamedTuple):
    """A group and the instant of a query."""

    cluster: str
    group: str
    instant: int
    """The instant in epoch milliseconds; `INT64_MAX` is now."""

    @property
    def at(self) -> int | None:
        """The instant; None is now."""
        return None if self.instant == INT64_MAX else self.instant


def instant_of(at: int | None) -> int:
    """Return the instant as a parameter of the tables' functions."""
    return INT64_MAX if at is None else at


def find_group(model: ReadModel, group: str, cluster: str | None = None, at: int | None = None) -> GroupAt:
    """Find a group by its name.

    Raises:
        NotFoundError: the group is unknown.
        UserError: it exists in several clusters, or its history begins after the instant.
    """
    rows = model.rows(_SQL["clusters"], {"group": group, "cluster": cluster})
    if not rows:
        raise NotFoundError(_unknown(model, group, cluster))
    if len(rows) > 1:
        clusters = ", ".join(sorted(row["cluster"] for row in rows))
        raise UserError(
            gettext(
                "Group {group} exists in the clusters {clusters}: select one with --cluster.",
                group=group, clusters=clusters,
            )
        )  # fmt: skip
    [row] = rows
    if at is not None and at < row["begins"]:
        begins = written(row["begins"])
        raise UserError(
            gettext("The history of {group} begins at {time}: choose a later time.", group=group, time=begins)
        )
    return GroupAt(row["cluster"], row["group"], instant_of(at))


def explain_nothing(
    model: ReadModel, cluster: str | None = None, at: int | None = None, group: str | None = None
) -> None:
    """Raise an error if an empty result has its reason in the query.

    Raises:
        NotFoundError: the cluster or group is unknown.
        UserError: the instant is before the beginning of history; or see `find_group`.
    """
    if group is not None:
        find_group(model, group, cluster, at)
        return
    if cluster is None and at is None:
        return
    begins = {row["cluster"]: row["begins"] for row in model.rows(_SQL["beginnings"])}
    if cluster is not None and cluster not in begins:
        known = ", ".join(sorted(begins)) or gettext("none")
        advice = did_you_mean(cluster, begins) or gettext("known clusters: {known}.", known=known)
        raise NotFoundError(gettext("Unknown cluster {cluster}: {advice}", cluster=cluster, advice=advice))
    begin = begins[cluster] if cluster is not None else min(begins.values(), default=None)
    if at is not None and begin is not None and at < begin:
        raise UserError(gettext("History begins at {time}: choose a later time.", time=written(begin)))


_NONE = {
    "incident": marked("No incident has an id beginning with {beginning}: list them with `{command}`."),
    "rebalance": marked("No rebalance of {group} has an id beginning with {beginning}: list them with `{command}`."),
}
_SEVERAL = {
    "incident": marked("{n} incidents have ids beginning with {beginning}: list them with `{command}`."),
    "rebalance": marked("{n} rebalances of {group} have ids beginning with {beginning}: list them with `{command}`."),
}


def only_one(
    rows: Sequence[Row], beginning: str, kind: Literal["incident", "rebalance"], command: str, group: str = ""
) -> Row:
    """Return the only row found by a prefix of its id.

    Args:
        rows: the rows whose id begins with the prefix.
        beginning: the prefix.
        kind: what the rows are.
        command: the command that lists them.
        group: their group, for the error message.

    Raises:
        NotFoundError: there is no such row.
        UserError: there are several.
    """
    if len(rows) == 1:
        return rows[0]
    values = {"n": len(rows), "beginning": repr(beginning), "command": command, "group": group}
    if rows:
        raise UserError(gettext(_SEVERAL[kind], **values))
    raise NotFoundError(gettext(_NONE[kind], **values))


def group_names(model: ReadModel) -> list[str]:
    """Return the names of all groups that were ever observed, sorted."""
    return [row["group"] for row in model.rows(_SQL["names"])]


def _unknown(model: ReadModel, group: str, cluster: str | None) -> str:
    names = group_names(model)
    alike = [name for name in closest(group, names, n=3, cutoff=0.5) if name != group]
    advice = dropped_by_age(model) or gettext("`rebalance-watch group list` lists all groups.")
    if alike:
        advice = gettext("did you mean {name}?", name=gettext(" or ").join(alike))
    if cluster is not None and group in names:
        return gettext(
            "Unknown consumer group {group} in cluster {cluster}: {advice}", group=group, cluster=cluster, advice=advice
        )
    return gettext("Unknown consumer group {group}: {advice}", group=group, advice=advice)
