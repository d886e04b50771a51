"""STALE_HEARTBEAT: a member has not sent a heartbeat for two intervals.

The broker drops it after 120 to 130 s, and tells nobody: its queues wait until the others look by themselves, up to
20 s later. Clear at a heartbeat, or when it is gone.
"""

from collections.abc import Iterator

from rebalance_model.observe.state import HookView
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict


def judge(turn: Turn, client_id: str) -> Verdict:
    """By each broker's clock: one that hears nothing of it is enough."""
    if client_id not in turn.state.members:
        return CLEAR
    verdict: Verdict = None
    for _, hook, age in _ages(turn, client_id):
        limit = 2 * turn.policy.heartbeat_broker_interval
        if age > limit:
            return Holds("warning", client_id=client_id)
        turn.schedule_check(turn.now + limit + 1 - age)
        if turn.now - hook.heartbeats[client_id].last <= limit:
            verdict = CLEAR
    return verdict


def evidence(turn: Turn, client_id: str) -> Evidence:
    """Where, and how old."""
    broker, _, age = max(_ages(turn, client_id), key=lambda found: found[2], default=(None, None, None))
    return {
        "broker": broker,
        "heartbeat_age_ms": age,
        "limit_ms": 2 * turn.policy.heartbeat_broker_interval,
        "dropped_after_ms": turn.policy.channel_expired_after,
    }


def _ages(turn: Turn, client_id: str) -> Iterator[tuple[str, HookView, int]]:
    """The age of its last heartbeat on each broker that tells; what may have been lost does not count."""
    for broker, view in turn.state.views.items():
        hook = turn.live_hook(view)
        heard = hook.heartbeats.get(client_id) if hook is not None else None
        if hook is not None and heard is not None:
            yield broker, hook, turn.now - max(heard.last, hook.covered_since)


RULE = Rule("STALE_HEARTBEAT", judge, evidence)
