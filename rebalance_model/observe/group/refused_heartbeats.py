"""Record the heartbeats that a broker does not take: refused with a code, or of a group that it skips."""

from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import BrokerView, HookView, RefusedHeartbeats


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


def find(hook: HookView, client_id: str, now: int, policy: Policy) -> RefusedHeartbeats | None:
    """Return a client's refused heartbeats; None if it has none, or sends none any more."""
    refused = hook.refused_heartbeats.get(client_id)
    return refused if refused is not None and now - refused.last <= 2 * policy.heartbeat_broker_interval else None
