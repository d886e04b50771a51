"""BROKER_LOCKS_LOST: a broker has restarted or failed over without its queue locks, on which their holders still rely.

A client renews its locks every 20 s. Until then the broker grants a lock to the first client that requests it, so two
clients may consume the queue. Clear when every holder has its lock again or has learned that it lost it.
"""

from rebalance_model.broker.rebalance_lock_manager import LockEntry
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.rules.rule import CLEAR, OF_BROKER, Advice, BrokerRule, Evidence, Holds, Verdict
from rebalance_model.observe.state import HookView
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, broker: str) -> Verdict:
    """Check the locks that existed when the broker restarted."""
    if step.facts.watched_since(broker) > step.now:
        return None
    hook = step.facts.calls_at(broker)
    if not hook.lost_locks:
        return CLEAR
    lost = _lost(step, hook)
    if not lost:
        return CLEAR
    doubles = _doubles(step, hook)
    if not doubles:
        return Holds("warning")
    oldest = min(hook.lost_locks[mq].last_update_timestamp for mq in doubles)
    step.schedule_check(oldest + step.policy.client_lock_max_live_time + 1)
    return Holds("critical", "TWO_OWNERS", hook.lost_locks[doubles[0]].client_id)


def evidence(step: GroupStep, broker: str) -> Evidence:
    """Return how many locks are not renewed, and the queues where two clients believe they hold the lock."""
    hook = step.facts.calls_at(broker)
    lost, doubles = _lost(step, hook), _doubles(step, hook)
    fields: Evidence = {"locks_missing": len(lost), "two_owners": len(doubles)}
    if doubles:
        mq = doubles[0]
        fields |= {"queue": str(mq), "former": hook.lost_locks[mq].client_id, "first_taker": hook.locks[mq].client_id}
    return fields


def _lost(step: GroupStep, hook: HookView) -> list[MessageQueue]:
    """Return the queues whose former holder is still a member and has not been seen to accept the loss."""
    return [mq for mq, lost in hook.lost_locks.items() if _counts(step, hook, mq, lost)]


def _counts(step: GroupStep, hook: HookView, mq: MessageQueue, lost: LockEntry) -> bool:
    is_trusted = not lost.is_expired(step.now, step.policy.client_lock_max_live_time)
    return lost.client_id in step.facts.members and (mq not in hook.locks or is_trusted)


def _doubles(step: GroupStep, hook: HookView) -> list[MessageQueue]:
    return [mq for mq in _lost(step, hook) if mq in hook.locks]


RULE = BrokerRule(
    "BROKER_LOCKS_LOST",
    judge,
    evidence,
    title="{subject} has lost its queue locks",
    units={"locks_missing": "count", "two_owners": "count", "queue": "text", "former": "text", "first_taker": "text"},
    sub_causes=("", "TWO_OWNERS"),
    needs=("HOOKS",),
    clear_after=lambda policy: policy.clear_after,
    absorbed_by=OF_BROKER,
    advice={
        "": Advice(
            what=(
                "The broker has restarted without its queue locks, or another replica has taken over without them: "
                "until the owners renew theirs, the first client that requests a lock gets it."
            ),
            first_step=(
                "Wait for the owners' next renewal (every 20 s); if this persists, check that they reach the broker."
            ),
            inspect=("BROKERS",),
        ),
        "TWO_OWNERS": Advice(
            short="another client took a queue",
            what=(
                "After the broker's restart another client took a queue whose former owner still relies on its lock."
            ),
            first_step=(
                "Expect messages of this queue out of order for up to 30 s; lockInStrictMode keeps locks across a "
                "restart."
            ),
            inspect=("COMPARE",),
        ),
    },
)
