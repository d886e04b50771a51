"""The doctor's checks of RocketMQ 5 proxies: whether each answers, and whether one that is needed is not configured."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from rebalance_model.observe.events import NOT_SUPPORTED, Event, ProxyConnection
from streaming.cli.check import Check
from streaming.queries.labels import some
from streaming.queries.results import Group

_PORT = "remotingListenPort, 8080 by default"


def answers(events: Iterable[Event]) -> Iterator[Check]:
    """Check by the events of a round of polls whether each proxy lists the clients of the groups."""
    by_proxy: defaultdict[str, list[ProxyConnection]] = defaultdict(list)
    for event in events:
        if isinstance(event, ProxyConnection):
            by_proxy[event.proxy].append(event)
    for proxy, found in by_proxy.items():
        yield _of_proxy(proxy, found)


def _of_proxy(proxy: str, connections: Sequence[ProxyConnection]) -> Check:
    part, errors = f"proxy {proxy}", [one.error for one in connections if one.error is not None]
    if not errors:
        clients = {one.client_id for event in connections for one in event.connections or ()}
        return Check(part=part, state="ok", found=f"{len(clients)} clients of {len(connections)} groups", needed=False)
    first = errors[0]
    said = first.remark.strip() or f"code {first.code}"
    less = "" if len(errors) == len(connections) else f" (for {len(errors)} of {len(connections)} groups)"
    if first.is_silence:
        mend = f"start it, or correct collector.proxies: the port is {_PORT}"
        return Check(part=part, state="missing", found=said + less, mend=mend, needed=False)
    if first.code == NOT_SUPPORTED:
        mend = f"name the remoting port of a proxy in collector.proxies: {_PORT}"
        return Check(part=part, state="wrong", found=f"it lists no clients: {said}{less}", mend=mend, needed=False)
    mend = "correct its access control or collector.proxies: it should list the clients of each group (203)"
    return Check(part=part, state="wrong", found=said + less, mend=mend, needed=False)


def needed(groups: Iterable[Group], proxies: Sequence[str]) -> Iterator[Check]:
    """Say which groups have clients that only proxies list, if no proxy is configured.

    Args:
        groups: the groups, as the tables have them.
        proxies: the configured proxies of all clusters.
    """
    served = [group.group for group in groups if group.sharing == "UNLISTED" or _is_only_proxied(group)]
    if not served or proxies:
        return
    found = f"none is configured, and no broker lists the clients of {some(sorted(served))}"
    mend = f'set collector.proxies = ["HOST:8080"] to the remoting ports of the proxies ({_PORT})'
    yield Check(part="proxies", state="missing", found=found, mend=mend, needed=False)


def _is_only_proxied(group: Group) -> bool:
    return bool(group.proxied_clients) and not group.members
