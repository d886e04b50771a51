"""Ghost connections: dead channels that a broker still lists beside a living one of the same client.

A broker takes a channel for dead when it was closed, or at its scan, 120 to 130 s after the last heartbeat on it
(ConsumerManager.scanNotActiveChannel). A client that thaws or reconnects may leave one behind: then its id stands twice
in the list by which every client divides the queues. AVG and AVG_BY_CIRCLE give a client the share of its first place
alone (`cidAll.indexOf(currentCID)`), so the share of the second place has no owner until that scan.

Which of the channels is dead: by the broker's hook the one whose heartbeats ended first; by polls the one that was
listed first. Two that were first listed by the same answer can't be told apart. Two processes that share a client id
(CLIENT_ID_COLLISION) look alike until heartbeats return to a channel (`heartbeats`), or, by polls, until both have been
listed for longer than any ghost.
"""

from typing import NamedTuple

from rebalance_model.entities import MessageQueue, java_order, queue_order
from rebalance_model.observe.group.channels import UNNAMED
from rebalance_model.observe.group.expectation import list_view
from rebalance_model.observe.state import BrokerView
from rebalance_model.observe.step import GroupStep

SCAN_PERIOD = 10_000
"""ClientHousekeepingService.start scans every so many milliseconds."""


class Ghost(NamedTuple):
    """A client with a dead channel beside a living one; times are epoch milliseconds."""

    client_id: str
    dead: tuple[str, ...]
    """The dead channels; where that is not known, all of the client's."""
    alive: str
    """The living channel; empty: not known which."""
    dropped_from: int | None
    """When the broker's scan may drop the (last) dead one at the earliest; None: not known."""
    dropped_by: int
    """When it has dropped it at the latest."""


def find(step: GroupStep) -> list[Ghost]:
    """Return the ghosts in the list of members that clients divide the queues by, in the order of client ids."""
    view = list_view(step.state)
    if view is None:
        return []
    channels: dict[str, list[str]] = {}
    for channel, info in view.info.channel_info_table.items():
        channels.setdefault(info.client_id, []).append(channel)
    doubled = sorted((c for c, known in channels.items() if len(known) > 1), key=java_order)
    found = (_by_hook(step, view, c, channels[c]) or _by_polls(step, view, c, channels[c]) for c in doubled)
    return [ghost for ghost in found if ghost is not None]


def leaves_unassigned(step: GroupStep, mq: MessageQueue) -> list[Ghost]:
    """Return the ghosts that explain why the queue has no owner: the strategy gives it to no client."""
    queue = step.state.queues[mq]
    return find(step) if queue.owner is None and queue.expected is None else []


def share(step: GroupStep) -> list[MessageQueue]:
    """Return the queues without owner that the strategy, on the list with the ghosts, gives to no client."""
    state = step.state
    return sorted(
        (
            mq
            for mq, queue in state.queues.items()
            if queue.owner is None and queue.expected is None and not mq.is_retry
            if queue.in_route or not state.routes  # hooks alone know no route
        ),
        key=queue_order,
    )


def _by_hook(step: GroupStep, view: BrokerView, client_id: str, channels: list[str]) -> Ghost | None:
    """By the last heartbeat on each channel; None: it does not tell them apart, both live, or no hook tells."""
    hook = step.live_hook(view)
    heard = hook.heartbeats.get(client_id) if hook is not None else None
    if heard is None or any(beats.returned for beats in heard.channels.values()):
        return None
    table = view.info.channel_info_table
    last = {c: table[c].last_update_timestamp for c in channels if c != UNNAMED + client_id}
    alive = max(last, key=lambda c: (last[c], c))
    dead = tuple(sorted(c for c in last if last[c] < last[alive]))
    if not dead:
        return None
    dropped_by = max(last[c] for c in dead) + step.policy.channel_expired_after
    return Ghost(client_id, dead, alive, dropped_by - SCAN_PERIOD, dropped_by)


def _by_polls(step: GroupStep, view: BrokerView, client_id: str, channels: list[str]) -> Ghost | None:
    """By when each channel was first listed: no heartbeat came on the older one after the newer was opened."""
    since = {c: view.doubled.get(client_id, {}).get(c, view.asked) for c in channels}
    newest = max(since.values())
    dropped_by = newest + step.policy.channel_expired_after
    if step.now > dropped_by:
        return None  # more than one of them lives
    dead = tuple(sorted(c for c in channels if since[c] < newest))
    if len(dead) < len(channels) - 1:
        return Ghost(client_id, tuple(sorted(channels)), "", None, dropped_by)
    return Ghost(client_id, dead, next(c for c in channels if c not in dead), None, dropped_by)
