"""BROKER_LOCKS_LOST: a broker has restarted and forgotten its queue locks; who had one believes in it still.

A client renews its locks every 20 s, and until then whoever asks first gets the queue: two clients may consume it.
Clear when everyone has its lock again, or knows that it has not.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.rules.rule import CLEAR, Advice, BrokerRule, Evidence, Holds, Verdict
from rebalance_model.observe.state import HookView, LostLock
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, broker: str) -> Verdict:
    """By the locks that stood at the restart."""
    hook = step.live_hook(step.state.views.get(broker))
    if hook is None:
        return None
    if not hook.lost_locks:
        return CLEAR
    lost = _lost(step, hook)
    if not lost:
        return CLEAR
    doubles = _doubles(step, hook)
    if not doubles:
        return Holds("warning")
    ends = min(hook.lost_locks[mq].renewed for mq in doubles) + step.policy.client_lock_max_live_time + 1
    step.schedule_check(ends)
    return Holds("critical", "TWO_OWNERS", hook.lost_locks[doubles[0]].client_id)


def evidence(step: GroupStep, broker: str) -> Evidence:
    """How many locks are not back, and where two believe that they have one."""
    hook = step.live_hook(step.state.views.get(broker))
    lost, doubles = (_lost(step, hook), _doubles(step, hook)) if hook is not None else ([], [])
    found: Evidence = {"locks_missing": len(lost), "two_owners": len(doubles)}
    if hook is not None and doubles:
        mq = doubles[0]
        found |= {"queue": str(mq), "former": hook.lost_locks[mq].client_id, "first_taker": hook.locks[mq].client_id}
    return found


def _lost(step: GroupStep, hook: HookView) -> list[MessageQueue]:
    """Whose holder is a member still, and was not found to have given it up for another."""
    return [mq for mq, lost in hook.lost_locks.items() if _counts(step, hook, mq, lost)]


def _counts(step: GroupStep, hook: HookView, mq: MessageQueue, lost: LostLock) -> bool:
    return lost.client_id in step.state.members and (mq not in hook.locks or _believes(step, lost))


def _doubles(step: GroupStep, hook: HookView) -> list[MessageQueue]:
    return [mq for mq in _lost(step, hook) if mq in hook.locks]


def _believes(step: GroupStep, lost: LostLock) -> bool:
    return step.now - lost.renewed <= step.policy.client_lock_max_live_time


RULE = BrokerRule(
    "BROKER_LOCKS_LOST",
    judge,
    evidence,
    units={"locks_missing": "count", "two_owners": "count", "queue": "text", "former": "text", "first_taker": "text"},
    sub_causes=("", "TWO_OWNERS"),
    needs=("HOOKS",),
    clear_after=lambda policy: policy.clear_after,
    absorbed_by=("BROKER_UNREACHABLE",),
    advice={
        "": Advice(
            what=(
                "The broker has restarted without its queue locks: until the owners renew theirs, whoever asks first "
                "gets one."
            ),
            first_step=(
                "Wait for the owners' next renewal (every 20 s); if it stays, see whether they reach the broker."
            ),
        ),
        "TWO_OWNERS": Advice(
            what=(
                "After the broker's restart another client took a queue whose former owner still believes in its lock."
            ),
            first_step=(
                "Expect messages of this queue out of order for up to 30 s; lockInStrictMode keeps locks over a "
                "restart."
            ),
        ),
    },
)
