"""CLOCK_SKEW: a client's clock, or a broker's, is off the collector's.

A broker's clock is measured (`engine.clocks`), and then it is about the cluster. Where no broadcast measures it, and of
a client, stamps in answers to one group show it (`polls.clock_skew`).

What it costs a client: the broker keeps its older subscription, where it is slow. What it costs a broker: messages are
kept for too long or too short, and delayed ones come at the wrong time. The stamps of either mislead whoever reads them
beside another's.
"""

from rebalance_model.observe.polls.clock_skew import Bounds
from rebalance_model.observe.turn import ClusterStep, Step, Turn
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict


def judge(turn: Turn, client_id: str) -> Verdict:
    """By the bounds that its answers have given."""
    client = turn.state.clients.get(client_id)
    return _judge(turn, client.skew, client_id=client_id) if client is not None else CLEAR


def judge_broker(turn: Turn, broker: str) -> Verdict:
    """By the bounds that its answers to the group have given, unless it is measured."""
    view, measured = turn.state.views.get(broker), turn.cluster.brokers.get(broker)
    if view is None or (measured is not None and measured.skew is not None):
        return CLEAR
    return _judge(turn, view.skew, whose="BROKER_")


def judge_broker_clock(step: ClusterStep, broker: str) -> Verdict:
    """By the bounds that were measured."""
    view = step.state.brokers.get(broker)
    return _judge(step, view.skew, whose="BROKER_", stamp=view.skew_since) if view is not None else CLEAR


def _judge(
    step: Step, skew: Bounds | None, *, client_id: str | None = None, whose: str = "", stamp: int | None = None
) -> Verdict:
    if skew is None:
        return None
    (low, high), limit = skew, step.policy.clock_skew
    if low > limit:
        return Holds("info", f"{whose}AHEAD", client_id, stamp=stamp)
    if high < -limit:
        return Holds("info", f"{whose}BEHIND", client_id, stamp=stamp)
    return CLEAR if -limit <= low and high <= limit else None


def evidence(turn: Turn, client_id: str) -> Evidence:
    """The bounds."""
    client = turn.state.clients.get(client_id)
    return _evidence(turn, client.skew if client is not None else None)


def broker_evidence(turn: Turn, broker: str) -> Evidence:
    """The bounds."""
    view = turn.state.views.get(broker)
    return _evidence(turn, view.skew if view is not None else None)


def clock_evidence(step: ClusterStep, broker: str) -> Evidence:
    """The bounds."""
    view = step.state.brokers.get(broker)
    return _evidence(step, view.skew if view is not None else None)


def _evidence(step: Step, skew: Bounds | None) -> Evidence:
    low, high = skew if skew is not None else (None, None)
    return {"ahead_ms_min": low, "ahead_ms_max": high, "limit_ms": step.policy.clock_skew}


RULE = Rule("CLOCK_SKEW", judge, evidence, open_after=lambda policy: policy.clock_skew_after)
OF_BROKER = Rule("CLOCK_SKEW", judge_broker, broker_evidence, open_after=lambda policy: policy.clock_skew_after)
OF_BROKER_CLOCK = Rule(
    "CLOCK_SKEW", judge_broker_clock, clock_evidence, open_after=lambda policy: policy.clock_skew_after
)
