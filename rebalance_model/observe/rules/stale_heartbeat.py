"""STALE_HEARTBEAT: a member has not sent a heartbeat for two intervals.

The broker drops it after 120 to 130 s and notifies no other client: its queues wait until the others rebalance by
timer, up to 20 s later. Clear at a heartbeat, or when the member is gone.
"""

from collections.abc import Iterator

from rebalance_model.observe.rules.rule import CLEAR, Advice, ClientRule, Evidence, Holds, Verdict
from rebalance_model.observe.state import HookView
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, client_id: str) -> Verdict:
    """Compare with each broker's clock; one broker without heartbeats of the member is enough."""
    if client_id not in step.members:
        return CLEAR
    verdict: Verdict = None
    for _, hook, age in _ages(step, client_id):
        limit = 2 * step.policy.heartbeat_broker_interval
        if age > limit:
            return Holds("warning", client_id=client_id)
        step.schedule_check(step.now + limit + 1 - age)
        if step.now - hook.heartbeats[client_id].last <= limit:
            verdict = CLEAR
    return verdict


def evidence(step: GroupStep, client_id: str) -> Evidence:
    """Return the broker and the age of the last heartbeat (ms)."""
    broker, _, age = max(_ages(step, client_id), key=lambda found: found[2], default=(None, None, None))
    return {
        "broker": broker,
        "heartbeat_age_ms": age,
        "limit_ms": 2 * step.policy.heartbeat_broker_interval,
        "dropped_after_ms": step.policy.channel_expired_after,
    }


def _ages(step: GroupStep, client_id: str) -> Iterator[tuple[str, HookView, int]]:
    """Yield the age of its last heartbeat (ms) on each broker whose hook reports without lost events."""
    for broker, view in step.state.views.items():
        hook = step.live_hook(view)
        heartbeats = hook.heartbeats.get(client_id) if hook is not None else None
        if hook is not None and heartbeats is not None:
            yield broker, hook, step.now - max(heartbeats.last, hook.covered_since)


RULE = ClientRule(
    "STALE_HEARTBEAT",
    judge,
    evidence,
    units={"broker": "text", "heartbeat_age_ms": "ms", "limit_ms": "ms", "dropped_after_ms": "ms"},
    needs=("HOOKS",),
    advice={
        "": Advice(
            what=(
                "The member has sent no heartbeat for two intervals; the broker drops it after 120 s without notice."
            ),
            first_step="Check whether its process is paused, starved, or cut off from this broker.",
            inspect=("MEMBERS", "THREADS"),
        ),
    },
)
