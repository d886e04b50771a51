"""BROKER_LOCKS_LOST: a broker has restarted and forgotten its queue locks; who had one believes in it still.

A client renews its locks every 20 s, and until then whoever asks first gets the queue: two clients may consume it.
Clear when everyone has its lock again, or knows that it has not.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.state import HookView, LostLock
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict


def judge(turn: Turn, broker: str) -> Verdict:
    """By the locks that stood at the restart."""
    hook = turn.live_hook(turn.state.views.get(broker))
    if hook is None:
        return None
    if not hook.lost_locks:
        return CLEAR
    lost = _lost(turn, hook)
    if not lost:
        return CLEAR
    doubles = _doubles(turn, hook)
    if not doubles:
        return Holds("warning")
    ends = min(hook.lost_locks[mq].renewed for mq in doubles) + turn.policy.client_lock_max_live_time + 1
    turn.schedule_check(ends)
    return Holds("critical", "TWO_OWNERS", hook.lost_locks[doubles[0]].client_id)


def evidence(turn: Turn, broker: str) -> Evidence:
    """How many locks are not back, and where two believe that they have one."""
    hook = turn.live_hook(turn.state.views.get(broker))
    lost, doubles = (_lost(turn, hook), _doubles(turn, hook)) if hook is not None else ([], [])
    found: Evidence = {"locks_missing": len(lost), "two_owners": len(doubles)}
    if hook is not None and doubles:
        mq = doubles[0]
        found |= {"queue": str(mq), "former": hook.lost_locks[mq].client_id, "first_taker": hook.locks[mq].client_id}
    return found


def _lost(turn: Turn, hook: HookView) -> list[MessageQueue]:
    """Whose holder is a member still, and was not found to have given it up for another."""
    return [mq for mq, lost in hook.lost_locks.items() if _counts(turn, hook, mq, lost)]


def _counts(turn: Turn, hook: HookView, mq: MessageQueue, lost: LostLock) -> bool:
    return lost.client_id in turn.state.members and (mq not in hook.locks or _believes(turn, lost))


def _doubles(turn: Turn, hook: HookView) -> list[MessageQueue]:
    return [mq for mq in _lost(turn, hook) if mq in hook.locks]


def _believes(turn: Turn, lost: LostLock) -> bool:
    return turn.now - lost.renewed <= turn.policy.client_lock_max_live_time


RULE = Rule(
    "BROKER_LOCKS_LOST",
    judge,
    evidence,
    clear_after=lambda policy: policy.clear_after,
    absorbed_by=("BROKER_UNREACHABLE",),
)
