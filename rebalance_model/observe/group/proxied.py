"""The clients of proxies: no broker lists them, they own no queue, and each pops from every queue of its topics.

They are known by the proxies' own lists (`polls.connections`), and by the heartbeats that a proxy copies to the others,
which pass a broker's hook (`hooks.pops`). The two differ for a time: a killed client sends no heartbeat, and stays in
its proxy's list for two minutes.
"""

from collections.abc import Mapping

from rebalance_model.entities import RETRY_TOPIC_PREFIX, java_order
from rebalance_model.observe.state import GroupState, Pops, ProxyView
from rebalance_model.observe.step import GroupStep

PROXIED_FORGOTTEN = 130_000
"""A proxy has dropped a client without heartbeats by then, and one is no longer asked of which nothing was reported for
as long; milliseconds."""


def clients(state: GroupState) -> list[str]:
    """Return the ids of the group's clients of proxies, in Java's order."""
    if state.pops is None and not state.proxies:
        return []
    beating = state.pops.proxied.keys() if state.pops is not None else set[str]()
    return sorted(beating | {one for view in state.proxies.values() for one in view.clients}, key=java_order)


def is_listed(state: GroupState) -> bool:
    """Return whether a proxy that answers lists a client of the group."""
    return any(view.answers and view.clients for view in state.proxies.values())


def all_answer(state: GroupState) -> bool:
    """Return whether the collector asks proxies, and each of them answers."""
    return bool(state.proxies) and all(view.answers for view in state.proxies.values())


def failing(state: GroupState) -> list[str]:
    """Return the proxies that do not answer, sorted."""
    return sorted(proxy for proxy, view in state.proxies.items() if not view.answers)


def pop(state: GroupState, topic: str) -> bool:
    """Return whether clients that a proxy lists consume a topic, or the group's retry topic of one."""
    views = [view for view in state.proxies.values() if view.answers and view.clients]
    return any(topic in view.topics for view in views) or (bool(views) and topic.startswith(RETRY_TOPIC_PREFIX))


def subscriptions(state: GroupState) -> dict[str, str]:
    """Return what the clients subscribe that proxies list, and with which expression."""
    expressions: dict[str, str] = {}
    for view in state.proxies.values():
        expressions |= view.topics
    return expressions


def note_lists(step: GroupStep, before: Mapping[str, ProxyView]) -> None:
    """Apply that a proxy's answer has changed what is known of the clients.

    Args:
        step: the step, with the views as they are now.
        before: the views before.
    """
    state = step.state
    had = any(view.clients for view in before.values())
    has = any(view.clients for view in state.proxies.values())
    if has:
        state.proxied_left_at = 0
    elif had:
        state.proxied_left_at = step.now
    if had != has or before.keys() != state.proxies.keys():
        step.changed("PROXIES")
    step.changed("REPORT")
    step.touched |= dict.fromkeys(state.queues)


def drop_beating(step: GroupStep, pops: Pops, client_id: str) -> None:
    """Drop a client whose heartbeats were seen: it has left, or its proxy has dropped it."""
    del pops.proxied[client_id]
    step.clients_to_judge[client_id] = None
    step.changed("PROXIES")
    if not pops.proxied:
        pops.proxied_left_at = step.now


def left_at(state: GroupState) -> int:
    """Return when the last client of a proxy left, by the proxies' lists; 0: one is there, none was, or unknown."""
    return state.proxied_left_at if all_answer(state) else 0


def forget_unreported(step: GroupStep) -> None:
    """Forget the proxies of which the group's collector reports nothing any more: it no longer asks them."""
    state = step.state
    if not state.is_polled:
        return
    kept = {
        proxy: view for proxy, view in state.proxies.items() if state.polled_at - view.reported_at <= PROXIED_FORGOTTEN
    }
    if len(kept) < len(state.proxies):
        left = state.proxied_left_at
        before, state.proxies = state.proxies, kept
        note_lists(step, before)
        state.proxied_left_at = left  # that a proxy is not asked does not show that its clients left
