"""Fold a proxy's list of a group's clients (GET_CONSUMER_CONNECTION_LIST): which clients no broker lists.

It is no broker's view: these clients divide no queues, cause no rebalance, and hold no locks. A proxy that does not
answer shows nothing: its last list stays, and counts for nothing until it answers.
"""

from rebalance_model.observe.events import ProxyConnection
from rebalance_model.observe.group import proxied
from rebalance_model.observe.state import ListedClient, ProxyView
from rebalance_model.observe.step import GroupStep

CLIENTS_MAX, TOPICS_MAX, PROXIES_MAX = 4_096, 1_024, 64
"""Clients and topics that are kept of a proxy's list, and proxies of a group."""


def fold_proxy(step: GroupStep, event: ProxyConnection) -> None:
    """Replace what the proxy lists by its answer; an answer older than the known one changes nothing."""
    state = step.state
    view = state.proxies.get(event.proxy, ProxyView())
    if event.asked < view.asked or (event.proxy not in state.proxies and len(state.proxies) >= PROXIES_MAX):
        return
    taken = _failed(view, event) if event.error is not None else _listed(view, event)
    before = state.proxies
    state.proxies = before | {event.proxy: taken}
    if _known(view) != _known(taken):
        proxied.note_lists(step, before)
    if event.error is None:
        _drop_unlisted(step, event)


def _known(view: ProxyView) -> tuple[object, ...]:
    return view.answers, view.clients, view.topics, view.error, view.unreadable


def _failed(view: ProxyView, event: ProxyConnection) -> ProxyView:
    error = event.error
    code = f"code {error.code}" if error is not None and error.code > 0 else ""
    why = ": ".join(text for text in (code, error.remark.strip() if error is not None else "") if text)
    return ProxyView(view.asked, event.time, view.unanswered + 1, why, view.clients, view.topics)


def _listed(view: ProxyView, event: ProxyConnection) -> ProxyView:
    rows = sorted({one.client_id: one for one in event.connections or ()}.items())
    clients = {name: ListedClient(one.language, one.version) for name, one in rows[:CLIENTS_MAX]}
    unreadable = event.unreadable
    if len(rows) > CLIENTS_MAX:
        unreadable += (f"connectionSet: {len(rows) - CLIENTS_MAX:,} clients more than {CLIENTS_MAX:,}",)
    if event.incomplete:  # a client whose row can't be read may be listed all the same
        clients = dict([*clients.items(), *((name, one) for name, one in view.clients.items() if name not in clients)])
        clients = dict(list(clients.items())[:CLIENTS_MAX])
    topics = dict(sorted((one.topic, one.sub_string or "") for one in event.subscriptions)[:TOPICS_MAX])
    return ProxyView(event.asked, event.time, 0, "", clients, topics, unreadable)


def _drop_unlisted(step: GroupStep, event: ProxyConnection) -> None:
    """Drop the clients without heartbeats that no proxy lists any more: their proxy has dropped them."""
    pops, state = step.state.pops, step.state
    if pops is None or not pops.proxied or not proxied.all_answer(state):
        return
    silent = event.asked - step.policy.proxy_client_silent_after
    for client_id in [one for one, client in pops.proxied.items() if client.last < silent]:
        if not any(client_id in view.clients for view in state.proxies.values()):
            proxied.drop_beating(step, pops, client_id)
