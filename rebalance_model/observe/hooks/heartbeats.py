"""Record when each member last sent a heartbeat to a broker, and on which channel.

A process that reconnects never returns to its old channel; if it opens two within milliseconds, it sends heartbeats on
one of them. So a client id belongs to two processes if its heartbeats return to one channel and to another, each half
an interval or more after the one before on that channel, with one on the other channel in between.
"""

from collections.abc import Collection

from rebalance_model.observe.events import HeartBeat
from rebalance_model.observe.group import ghost_connections
from rebalance_model.observe.group.ghost_connections import CHANNEL_TIMEOUT
from rebalance_model.observe.hooks import pull_errors
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import BrokerView, ChannelBeats, Heartbeats, HookView, SeldomHeartbeats
from rebalance_model.observe.step import GroupStep

CHANNELS_MAX = 4
"""At most this many channels of a client are kept."""
EXPIRED_MAX = 256
"""At most this many clients are kept that were dropped without a heartbeat."""
SELDOM_MAX = 3_600_000
"""A client from which no heartbeat comes for longer has left; milliseconds."""


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
    ghost_connections.note_skipped(hook, view, asked)


def note_listed(hook: HookView, client_ids: Collection[str], now: int) -> None:
    """Record the broker's member list: drop other clients, and count from now for members without any heartbeat."""
    former, listed = hook.heartbeats, set(client_ids)
    for client_id in [one for one in former if one not in listed]:  # a set has another order in each process
        _note_dropped(hook, client_id, former[client_id].last, now)
    if former.keys() != listed:
        hook.heartbeats = {c: former.get(c) or Heartbeats(now) for c in dict.fromkeys(client_ids)}


def _note_dropped(hook: HookView, client_id: str, last: int, now: int) -> None:
    """Keep when the last heartbeat of a client came that was dropped for want of one."""
    if now - last <= CHANNEL_TIMEOUT:
        return
    kept = {client: at for client, at in hook.expired.items() if now - at <= SELDOM_MAX}
    while len(kept) >= EXPIRED_MAX:
        del kept[min(kept, key=lambda client: kept[client])]
    hook.expired = {**kept, client_id: last}


def note_returned(step: GroupStep, hook: HookView, event: HeartBeat) -> None:
    """Record a heartbeat of a client that was dropped without one, or that sent them too seldom until now.

    One that was frozen or cut off sends none either. But it pulls nothing meanwhile, whereas this one was refused on
    its channel for longer than heartbeats are apart by default.
    """
    former, seldom = hook.expired.pop(event.client_id, None), hook.seldom_heartbeats.get(event.client_id)
    if former is None:
        if seldom is not None and event.time - seldom.last <= CHANNEL_TIMEOUT:
            del hook.seldom_heartbeats[event.client_id]
        return
    interval = event.time - former
    if former < hook.covered_since or (
        seldom is None
        and pull_errors.unregistered_for(step, event.broker, event.channel) <= step.policy.heartbeat_broker_interval
    ):
        return
    since = seldom.since if seldom is not None else former
    hook.seldom_heartbeats[event.client_id] = SeldomHeartbeats(interval, since, event.time)


def seldom(hook: HookView, client_id: str, now: int) -> SeldomHeartbeats | None:
    """Return the heartbeats of a client that sends them too seldom; None: it does not, or sends none any more."""
    found = hook.seldom_heartbeats.get(client_id)
    return found if found is not None and now - found.last <= 2 * found.interval else None


def forget_ended(hook: HookView, now: int) -> None:
    """Forget the clients that have long sent no heartbeat."""
    every = hook.seldom_heartbeats
    hook.seldom_heartbeats = {client: one for client, one in every.items() if seldom(hook, client, now) is not None}


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
