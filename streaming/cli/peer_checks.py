"""The doctor's checks of the programs beside a cluster: RocketMQ 5 proxies and the OpenTelemetry collector."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from rebalance_model.observe.events import NOT_SUPPORTED, Event, ProxyConnection
from streaming.base.errors import SettingsError
from streaming.base.sections.reporting import Otlp
from streaming.queries.labels import some
from streaming.queries.results import Group
from streaming.serve.otlp.start import check


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check."""

    part: str
    state: Literal["ok", "missing", "wrong"]
    found: str
    mend: str = ""
    needed: bool = True
    """True if `run` requires it; False if only the lab does."""


def otlp_checks(otlp: Otlp) -> Iterator[Check]:
    """Yield a check of each signal that is pushed; none if nothing is."""
    if not otlp.endpoint:
        return
    try:
        check(otlp)
    except SettingsError as error:
        yield Check(part="otlp", state="wrong", found="settings can't be used", mend=str(error), needed=False)
        return
    from streaming.serve.otlp.receiver import PushRefusedError, ask  # an extra, which is installed

    for signal in otlp.signals:
        part, url = f"otlp {signal}", otlp.url(signal)
        try:
            ask(otlp, signal)
        except PushRefusedError as error:
            mend = (
                "start the collector, or correct otlp.endpoint and otlp.headers; or remove the signal of otlp.signals"
            )
            yield Check(part=part, state="missing", found=f"{url}: {error}", mend=mend, needed=False)
        else:
            yield Check(part=part, state="ok", found=url, needed=False)


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
