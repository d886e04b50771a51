"""BROKER_UNREACHABLE: a broker answers no question of the collector; what rests on it is explained by that.

Two questions in a row without even an error of the broker's own; one is enough where its hook's ticks have stopped,
too. Clear with the next answer. Not known while no collector is followed, or its own ticks have stopped.
"""

from rebalance_model.observe.state import UNANSWERED_POLLS, BrokerView
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict


def judge(turn: Turn, broker: str) -> Verdict:
    """By the questions in vain."""
    view = turn.state.views.get(broker)
    if view is None or not view.unanswered:
        return CLEAR
    if not turn.state.is_polled:
        return None
    if view.unanswered >= UNANSWERED_POLLS or _hook_is_silent(turn, view):
        return Holds("critical", "HOOK_SILENT" if _hook_is_silent(turn, view) else "")
    return None


def evidence(turn: Turn, broker: str) -> Evidence:
    """For how long, and what is at stake."""
    view = turn.state.views.get(broker)
    if view is None:
        return {}
    return {
        "unanswered": view.unanswered,
        "limit": UNANSWERED_POLLS,
        "silent_ms": turn.now - view.unanswered_since if view.unanswered else 0,
        "hook_silent": _hook_is_silent(turn, view) if view.told_by else None,
        "queues": sum(mq.broker == broker and not mq.is_retry for mq in turn.state.queues),
    }


def _hook_is_silent(turn: Turn, view: BrokerView) -> bool:
    return view.told_by in turn.state.silent


RULE = Rule("BROKER_UNREACHABLE", judge, evidence)
