"""Which group a question is about."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple

from rebalance_model.entities import INT64_MAX
from streaming.errors import NotFoundError, UserError
from streaming.read_model.reader import ReadModel, Row
from streaming.times import written


class Subject(NamedTuple):
    """A group, and the instant that is asked about."""

    cluster: str
    group: str
    instant: int
    """Epoch milliseconds; `INT64_MAX` is now."""

    @property
    def at(self) -> int | None:
        """The instant; None is now."""
        return None if self.instant == INT64_MAX else self.instant


def instant_of(at: int | None) -> int:
    """The instant as the tables' functions take it."""
    return INT64_MAX if at is None else at


def subject(model: ReadModel, group: str, cluster: str | None = None, at: int | None = None) -> Subject:
    """The group of that name.

    Raises:
        NotFoundError: there is none.
        UserError: there is one in several clusters, or its history begins later.
    """
    known = model.rows(
        "SELECT s.cluster, s.group, min(s.time) AS begins FROM group_state s"
        " WHERE s.group = $group AND ($cluster IS NULL OR s.cluster = $cluster) GROUP BY s.cluster, s.group",
        {"group": group, "cluster": cluster},
    )
    if not known:
        raise NotFoundError(_nobody(model, group, cluster))
    if len(known) > 1:
        clusters = ", ".join(sorted(row["cluster"] for row in known))
        raise UserError(f"There is a group {group} in each of the clusters {clusters}: name one with --cluster.")
    [found] = known
    if at is not None and at < found["begins"]:
        raise UserError(f"The history of {group} begins at {written(found['begins'])}: choose a later time.")
    return Subject(found["cluster"], found["group"], instant_of(at))


def explain_nothing(
    model: ReadModel, cluster: str | None = None, at: int | None = None, group: str | None = None
) -> None:
    """Why there is no answer, where the question is the reason and not the cluster's good health.

    Raises:
        NotFoundError: there is no such cluster or group.
        UserError: history begins later; or see `subject`.
    """
    if group is not None:
        subject(model, group, cluster, at)
        return
    if cluster is None and at is None:
        return
    begins = {row["cluster"]: row["begins"] for row in model.rows(_BEGINS)}
    if cluster is not None and cluster not in begins:
        known = ", ".join(sorted(begins)) or "none yet"
        raise NotFoundError(f"Telemetry knows no cluster {cluster}; it knows: {known}.")
    begin = begins[cluster] if cluster is not None else min(begins.values(), default=None)
    if at is not None and begin is not None and at < begin:
        raise UserError(f"History begins at {written(begin)}: choose a later time.")


def only_one(found: Sequence[Row], beginning: str, kind: str, command: str, of: str = "") -> Row:
    """The one of which an id is known, or a beginning of it that fits no other.

    Args:
        found: all whose id begins so.
        beginning: what is known of the id.
        kind: what they are, in the singular.
        command: what lists them.
        of: of which group, as `` of orders-group``.

    Raises:
        NotFoundError: there is none.
        UserError: there are several.
    """
    if len(found) == 1:
        return found[0]
    how = f"{len(found)} {kind}s{of} have" if found else f"No {kind}{of} has"
    raise (UserError if found else NotFoundError)(
        f"{how} an id that begins with {beginning!r}: `{command}` shows them."
    )


_BEGINS = "SELECT s.cluster, min(s.time) AS begins FROM group_state s GROUP BY s.cluster"


def _nobody(model: ReadModel, group: str, cluster: str | None) -> str:
    names = [row["group"] for row in model.rows("SELECT DISTINCT s.group FROM group_state s ORDER BY s.group")]
    where = f" in the cluster {cluster}" if cluster is not None and group in names else ""
    alike = [name for name in get_close_matches(group, names, n=3, cutoff=0.5) if name != group]
    advice = f"did you mean {' or '.join(alike)}?" if alike else "`rebalance-watch group list` names them all."
    return f"Telemetry knows no group {group}{where}: {advice}"
