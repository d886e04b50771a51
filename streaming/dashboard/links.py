"""The pages' addresses. They carry the instant, so that a link shows tomorrow what it shows now."""

from urllib.parse import quote, urlencode

HOME = "/"
"""All groups."""


def group_link(cluster: str, group: str, at: int | None = None, span: str | None = None) -> str:
    """A group, now or at an instant (epoch milliseconds)."""
    return _link(f"/group/{quote(group, safe='')}", cluster=cluster, at=at, span=span)


def rebalance_link(cluster: str, group: str, rebalance_id: str) -> str:
    """One settled rebalance."""
    return _link(f"/group/{quote(group, safe='')}/rebalance/{quote(rebalance_id, safe='')}", cluster=cluster)


def incident_link(incident_id: str) -> str:
    """One incident: where an alert leads."""
    return f"/incident/{quote(incident_id, safe='')}"


def _link(path: str, **query: str | int | None) -> str:
    said = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(said)}" if said else path
