"""Find ghost connections: dead channels that a broker still lists beside a living one of the same client.

A broker drops a channel when it is closed, or at its scan, 120 to 130 s after the last heartbeat on it
(ConsumerManager.scanNotActiveChannel). A client that thaws or reconnects may leave one behind: its id then appears
twice in the list by which every client divides the queues. AVG and AVG_BY_CIRCLE give a client the share of its first
entry only (`cidAll.indexOf(currentCID)`), so the share of the second entry has no owner until that scan.

The dead channel is, by the broker's hook, the one whose heartbeats ended first; by polls, the one that was listed
first. Two channels that were first listed by the same answer can't be told apart. Two processes that share a client id
(CLIENT_ID_COLLISION) look the same until heartbeats return to a channel (`heartbeats`), or, by polls, until both have
been listed for longer than any ghost.

Here is also which client a channel is, and what it subscribes.
"""

from collections.abc import Sequence
from typing import NamedTuple

from rebalance_model.broker.broker_config import BrokerConfig
from rebalance_model.broker.consumer_group_info import SubscriptionData
from rebalance_model.broker.consumer_manager import SCAN_PERIOD
from rebalance_model.entities import MessageQueue, java_order, queue_order
from rebalance_model.observe.events import Subscription
from rebalance_model.observe.facts.group_facts import TOPICS_MAX, list_view
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import BrokerView, GroupState, HookView, QueueState, RefusedHeartbeats
from rebalance_model.observe.step import GroupStep

CHANNEL_TIMEOUT = BrokerConfig().channel_expired_timeout
"""The first scan that finds a member's last heartbeat to be older than this removes the member; milliseconds."""
CHANNEL_EXPIRED = CHANNEL_TIMEOUT + SCAN_PERIOD
"""A member without a heartbeat for longer than this has been removed by a scan; milliseconds."""
UNNAMED = "?"
"""The prefix of the channel name for a member whose channel is unknown, followed by its client id."""


def client_of_channel(view: BrokerView, hook: HookView, channel: str) -> str | None:
    """Return the client of the channel, as far as it is known; else None."""
    info = view.info.channel_info_table.get(channel)
    return info.client_id if info is not None else hook.client_by_channel.get(channel)


def name_channel(view: BrokerView, client_id: str, channel: str) -> None:
    """Set the channel of a member whose channel was unknown."""
    table = view.info.channel_info_table
    if channel not in table and (info := table.pop(UNNAMED + client_id, None)) is not None:
        info.channel = channel
        table[channel] = info


def subscription_table(subscriptions: Sequence[Subscription]) -> dict[str, SubscriptionData]:
    """Return subscriptions as the broker keeps them, by topic."""
    return {
        s.topic: SubscriptionData(s.topic, s.sub_string or "", s.expression_type, s.sub_version) for s in subscriptions
    }


def note_heartbeat(step: GroupStep, client_id: str, subscriptions: Sequence[Subscription]) -> None:
    """Process the subscriptions in a member's heartbeat."""
    client = step.state.clients[client_id]
    observed = tuple(sorted(subscriptions, key=lambda s: s.topic)[:TOPICS_MAX])
    answer_counted = client.subscriptions_observed_at < client.asked_at_answer
    if observed != (client.subscriptions if answer_counted else client.heartbeat_subscriptions):
        step.changed("SUBSCRIPTIONS")
    client.heartbeat_subscriptions, client.subscriptions_observed_at = observed, step.now


class Ghost(NamedTuple):
    """A client with a dead channel beside a living one; times are epoch milliseconds."""

    client_id: str
    dead: tuple[str, ...]
    """The dead channels; if they are unknown, all channels of the client."""
    alive: str
    """The living channel; empty if unknown."""
    dropped_from: int | None
    """The earliest time at which the broker's scan may drop the (last) dead channel; None: unknown."""
    dropped_by: int
    """The time by which the scan has dropped it."""


def is_listed_twice(state: GroupState, client_id: str) -> bool:
    """Return whether a broker lists the client on several channels: its query may reach a dead one."""
    tables = (view.info.channel_info_table.values() for view in state.views.values())
    return any(sum(info.client_id == client_id for info in table) > 1 for table in tables)


def find(step: GroupStep) -> list[Ghost]:
    """Return the ghosts in the member list by which clients divide the queues, in the order of client ids."""
    view = list_view(step.state)
    if view is None:
        return []
    channels: dict[str, list[str]] = {}
    for channel, info in view.info.channel_info_table.items():
        channels.setdefault(info.client_id, []).append(channel)
    doubled = sorted((c for c, known in channels.items() if len(known) > 1), key=java_order)
    found = (_by_hook(step, view, c, channels[c]) or _by_polls(step, view, c, channels[c]) for c in doubled)
    return [ghost for ghost in found if ghost is not None]


def leaves_unassigned(step: GroupStep, queue: QueueState) -> list[Ghost]:
    """Return the ghosts that explain why the queue has no owner: the strategy assigns it to no client."""
    return find(step) if queue.owner is None and queue.expected_owner is None else []


def share(step: GroupStep) -> list[MessageQueue]:
    """Return the queues without owner that the strategy, given the list with the ghosts, assigns to no client."""
    state = step.state
    return sorted(
        (
            mq
            for mq, queue in state.queues.items()
            if queue.owner is None and queue.expected_owner is None and not mq.is_retry
            if queue.in_route or not state.routes  # without polls no route is known
        ),
        key=queue_order,
    )


def _by_hook(step: GroupStep, view: BrokerView, client_id: str, channels: list[str]) -> Ghost | None:
    """Find the dead channels by heartbeats; None if these do not decide, all channels live, or no hook reports."""
    hook = step.live_hook(view)
    beats_of_client = hook.heartbeats.get(client_id) if hook is not None else None
    if beats_of_client is None or any(beats.returned for beats in beats_of_client.channels.values()):
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
    """Find the dead channels by when each was first listed: the older has no heartbeat since the newer was opened."""
    since = {c: view.doubled.get(client_id, {}).get(c, view.asked) for c in channels}
    newest = max(since.values())
    dropped_by = newest + step.policy.channel_expired_after
    if step.now > dropped_by:
        return None  # more than one of them lives
    dead = tuple(sorted(c for c in channels if since[c] < newest))
    if len(dead) < len(channels) - 1:
        return Ghost(client_id, tuple(sorted(channels)), "", None, dropped_by)
    return Ghost(client_id, dead, next(c for c in channels if since[c] == newest), None, dropped_by)


def note(hook: HookView, client_id: str, code: int, now: int) -> None:
    """Record a heartbeat that the broker did not take: refused with a code, or 0 of a group that it skips."""
    refused = hook.refused_heartbeats.setdefault(client_id, RefusedHeartbeats(code, now, now))
    refused.code, refused.last = code, now
    refused.count += 1


def note_skipped(hook: HookView, view: BrokerView, asked: int) -> None:
    """Record that the broker ignores the group in heartbeats: one was sent, and the broker has no member."""
    for info in view.info.channel_info_table.values():
        if info.last_update_timestamp < asked:
            hook.skips_group = True
            note(hook, info.client_id, 0, info.last_update_timestamp)


def find_refused(hook: HookView, client_id: str, now: int, policy: Policy) -> RefusedHeartbeats | None:
    """Return a client's refused heartbeats; None if it has none, or sends none any more."""
    refused = hook.refused_heartbeats.get(client_id)
    return refused if refused is not None and now - refused.last <= 2 * policy.heartbeat_broker_interval else None
