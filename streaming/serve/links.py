"""The addresses of the pages. They contain the instant, so that a link always shows the same state."""

from urllib.parse import quote, urlencode

from streaming.base.times import written

HOME = "/"
"""The page of all groups."""


def group_link(cluster: str, group: str, at: int | None = None, span: str | None = None) -> str:
    """Return the address of a group, now or at an instant (epoch milliseconds)."""
    return _link(f"/group/{quote(group, safe='')}", cluster=cluster, at=None if at is None else written(at), span=span)


def rebalance_link(cluster: str, group: str, rebalance_id: str) -> str:
    """Return the address of a settled rebalance."""
    return _link(f"/group/{quote(group, safe='')}/rebalance/{quote(rebalance_id, safe='')}", cluster=cluster)


def incident_link(incident_id: str) -> str:
    """Return the address of an incident, to which alerts link."""
    return f"/incident/{quote(incident_id, safe='')}"


def _link(path: str, **query: str | int | None) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given, safe=':')}" if given else path
