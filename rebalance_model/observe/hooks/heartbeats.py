"""Record when each member last sent a heartbeat to a broker, and on which channel.

A process that reconnects never returns to its old channel; if it opens two within milliseconds, it sends heartbeats on
one of them. So a client id belongs to two processes if its heartbeats return to one channel and to another, each half
an interval or more after the one before on that channel, with one on the other channel in between.
"""

from collections.abc import Collection

from rebalance_model.observe.group import refused_heartbeats
from rebalance_model.observe.group.channels import CHANNEL_TIMEOUT
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import BrokerView, ChannelBeats, Heartbeats, HookView

CHANNELS_MAX = 4
"""At most this many channels of a client are kept."""


def note(hook: HookView, client_id: str, channel: str, now: int, policy: Policy) -> None:
    """Record a heartbeat."""
    heartbeats = hook.heartbeats.get(client_id)
    if heartbeats is None:
        heartbeats = hook.heartbeats[client_id] = Heartbeats(now)
    heartbeats.last = now
    beats = heartbeats.channels.get(channel)
    if beats is None:
        _open(heartbeats, channel, now, policy)
        return
    between = any(other.last > beats.last for other in heartbeats.channels.values())
    if between and 2 * (now - beats.last) >= policy.heartbeat_broker_interval:
        beats.returned = now
    beats.last = now


def note_empty_list(hook: HookView, view: BrokerView, channel: str, asked: int) -> None:
    """Record that a client, which the broker should know by its heartbeat, was told that the group has no member.

    ClientManageProcessor.heartBeat skips a group without a subscriptionGroup config (autoCreateSubscriptionGroup is
    false), and answers SUCCESS.
    """
    caller = view.info.channel_info_table.get(channel)
    if caller is None or not hook.covered_since <= caller.last_update_timestamp < asked:
        return
    if asked - caller.last_update_timestamp > CHANNEL_TIMEOUT:
        return
    refused_heartbeats.note_skipped(hook, view, asked)


def note_listed(hook: HookView, client_ids: Collection[str], now: int) -> None:
    """Record the broker's member list: drop other clients, and count from now for members without any heartbeat."""
    known = hook.heartbeats
    if known.keys() != set(client_ids):
        hook.heartbeats = {c: known.get(c) or Heartbeats(now) for c in dict.fromkeys(client_ids)}


def forget(hook: HookView, client_id: str, channel: str) -> None:
    """Remove the channel of a client that has unregistered on it."""
    heartbeats = hook.heartbeats.get(client_id)
    if heartbeats is not None:
        heartbeats.channels.pop(channel, None)
        if not heartbeats.channels:
            del hook.heartbeats[client_id]


def returned_channels(heartbeats: Heartbeats, now: int, policy: Policy) -> list[str]:
    """Return the channels that heartbeats return to, as of recently."""
    limit = 2 * policy.heartbeat_broker_interval
    return sorted(
        channel for channel, beats in heartbeats.channels.items() if beats.returned and now - beats.last <= limit
    )


def _open(heartbeats: Heartbeats, channel: str, now: int, policy: Policy) -> None:
    limit = 2 * policy.heartbeat_broker_interval
    kept = {name: beats for name, beats in heartbeats.channels.items() if now - beats.last <= limit}
    if len(kept) >= CHANNELS_MAX:
        del kept[min(kept, key=lambda name: kept[name].last)]
    heartbeats.channels = {**kept, channel: ChannelBeats(now)}


def age_of(hook: HookView, client_id: str, now: int) -> int | None:
    """Return for how long a broker's hook has surely seen no heartbeat of a client (ms); None: it never saw one."""
    heartbeats = hook.heartbeats.get(client_id)
    return now - max(heartbeats.last, hook.covered_since) if heartbeats is not None else None
