"""The addresses of the pages. They contain the instant, so that a link always shows the same state."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from urllib.parse import quote, urlencode

from streaming.base.times import written

LOGOUT_PATH = "/logout"
"""The address to which a form is sent to sign out."""
_prefix: ContextVar[str] = ContextVar("prefix", default="")


@contextmanager
def below(prefix: str) -> Iterator[None]:
    """Let the addresses begin with a path prefix until the end of the block, as behind a proxy; empty: with none."""
    token = _prefix.set(prefix)
    try:
        yield
    finally:
        _prefix.reset(token)


def prefix() -> str:
    """Return the path prefix with which the addresses begin; empty: none."""
    return _prefix.get()


def home_link(at: int | None = None, **filters: str) -> str:
    """Return the address of the page of all groups with its filters, now or at an instant (epoch milliseconds)."""
    given = {name: value or None for name, value in filters.items()}
    return _link("/", **given, at=_instant(at))


def group_link(
    cluster: str, group: str, at: int | None = None, span: str | None = None, find: str | None = None,
    fold: str | None = None, part: str = "", period: tuple[int, int] | None = None,
) -> str:  # fmt: skip
    """Return the address of a group, now or at an instant (epoch milliseconds).

    Args:
        cluster: its cluster.
        group: its name.
        at: the instant; None: now.
        span: the length of the period.
        find: the text in queues or clients that is looked for.
        fold: how lanes are folded; see `lane_folds.FOLDS`.
        part: the part of the page to show first, such as ``queues``.
        period: begin and end of the period, if it is none of the lengths to choose from; epoch milliseconds.
    """
    address = _link(
        f"/group/{quote(group, safe='')}", cluster=cluster, at=_instant(at), span=span, find=find, fold=fold,
        since=_instant(period[0]) if period else None, until=_instant(period[1]) if period else None,
    )  # fmt: skip
    return f"{address}#{part}" if part else address


def what_if_link(cluster: str, group: str, at: int | None = None, *, restart: bool = False) -> str:
    """Return the address of the predictions for a group, as it is now or was at an instant (epoch milliseconds).

    Args:
        cluster: its cluster.
        group: its name.
        at: the instant; None: now.
        restart: whether a rolling restart is planned, too.
    """
    path = f"/group/{quote(group, safe='')}/what-if"
    return _link(path, cluster=cluster, at=_instant(at), restart="true" if restart else None)


def queue_link(cluster: str, group: str, topic: str, broker: str, queue_id: int, at: int | None = None) -> str:
    """Return the address of a queue of a group, now or at an instant (epoch milliseconds)."""
    names = "/".join(quote(name, safe="") for name in (topic, broker, str(queue_id)))
    path = f"/group/{quote(group, safe='')}/queue/{names}"
    return _link(path, cluster=cluster, at=_instant(at))


def rebalance_link(cluster: str, group: str, rebalance_id: str) -> str:
    """Return the address of a settled rebalance."""
    return _link(f"/group/{quote(group, safe='')}/rebalance/{quote(rebalance_id, safe='')}", cluster=cluster)


def client_link(client_id: str, at: int | None = None) -> str:
    """Return the address of a client, now or at an instant (epoch milliseconds)."""
    return _link(f"/client/{quote(client_id, safe='')}", at=_instant(at))


def clients_link(
    group: str | None = None, at: int | None = None, cluster: str | None = None, find: str = "", sort: str = ""
) -> str:  # fmt: skip
    """Return the address of all clients, or of those of a group, now or at an instant (epoch milliseconds)."""
    filters = {"group": group, "cluster": cluster, "find": find, "sort": sort}
    return _link("/clients", **{name: value or None for name, value in filters.items()}, at=_instant(at))


def incidents_link(at: int | None = None, **filters: str) -> str:
    """Return the address of the incidents that match the filters of their page, now or at an instant."""
    return _link("/incidents", **{name: value or None for name, value in filters.items()}, at=_instant(at))


def sql_link(query: str = "") -> str:
    """Return the address of the page for SQL, with a query in its editor."""
    return _link("/sql", query=query or None)


def sql_answer_link() -> str:
    """Return the address of REST that answers a query, from which a page makes a file."""
    return _link("/api/v1/sql")


def actions_link(find: str = "") -> str:
    """Return the address of what was done about alerts, all of it or what contains a text."""
    return _link("/actions", find=find or None)


def incident_link(incident_id: str) -> str:
    """Return the address of an incident, to which alerts link."""
    return _link(f"/incident/{quote(incident_id, safe='')}")


def rule_link(code: str) -> str:
    """Return the address of what a rule means, and what to do first."""
    return _link(f"/rule/{quote(code, safe='')}")


def health_link() -> str:
    """Return the address of REST by which a page learns whether its session has ended."""
    return _link("/api/v1/health")


def incident_action_link(incident_id: str, action: str) -> str:
    """Return the address of REST to which a page sends an action about an incident, such as ``acknowledge``."""
    return _link(f"/api/v1/incidents/{quote(incident_id, safe='')}/{action}")


def _instant(at: int | None) -> str | None:
    return None if at is None else written(at)


def _link(path: str, **query: str | int | None) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    path = f"{_prefix.get()}{path}"
    return f"{path}?{urlencode(given, safe=':')}" if given else path
